"""The row that a report is about, and the steps behind a run."""

from pathlib import Path

import pytest

from hardneg.recipes import find_recipe, load_recipe
from hardneg.records import RecipeError
from hardneg.stages.report import began_from, nearest_model, row_of, steps_behind

RECIPE = """
dataset: beir:data
model: model
stages:
  bm25-index: {stage: index, backend: bm25}
  bm25: {stage: search, index: bm25-index, split: test}
  bm25-train: {stage: search, index: bm25-index, split: train}
  negatives: {stage: mine, runs: {bm25: bm25-train}, miner: topk}
  warm-up: {stage: train, negatives: negatives, loss: ranknet}
  star: {stage: train, model: warm-up, negatives: negatives, loss: star}
  star-index: {stage: encode, model: star}
  star-pq: {stage: index, backend: sq8, vectors: star-index}
  star-test: {stage: search, index: star-pq, split: test}
  both: {stage: fuse, runs: {first: star-test, second: bm25}, method: zip}
"""


def test_the_steps_behind_a_run_are_each_there_once(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    specs = load_recipe(tmp_path / "recipe.yaml").stages
    assert [*steps_behind(["bm25"], specs)] == ["bm25", "bm25-index"]
    found = [*steps_behind(["star-test", "both"], specs)]
    assert set(found) == {*specs} - {"dataset"} and len(found) == len(set(found))


@pytest.mark.parametrize(
    ("name", "system", "began"),
    [
        ("star-passage", "STAR", "as shipped"),
        ("adore-star-passage", "ADORE+STAR", "STAR"),
        ("rocketqa-passage", "Step 4", "as shipped"),
        ("bm25-passage", "", ""),
    ],
)
def test_the_row_of_the_recipes_model(name: str, system: str, began: str) -> None:
    recipe = load_recipe(find_recipe(name), "demo")
    report, rows = recipe.stages["report"], recipe.stages["scores"].runs  # type: ignore[attr-defined]
    assert report.about == system  # type: ignore[attr-defined]
    assert (began_from(system, rows, recipe.stages) if system else "") == began


def test_a_row_without_a_model() -> None:
    stages = load_recipe(find_recipe("bm25-passage"), "demo").stages
    assert nearest_model("bm25", stages) == ("", 0) and nearest_model("start-test", stages) == ("start", 2)
    assert row_of("start", {"BM25": "bm25", "as shipped": "start-test"}, stages) == "as shipped"


def test_a_system_of_ones_own() -> None:
    recipe = load_recipe(find_recipe("star-passage"), "demo", ["stages.report.about=BM25"])
    assert recipe.stages["report"].about == "BM25"  # type: ignore[attr-defined]
    with pytest.raises(RecipeError, match=r"stages.report.about: no row 'BM52' in 'scores'; did you mean 'BM25'"):
        load_recipe(find_recipe("star-passage"), "demo", ["stages.report.about=BM52"])
