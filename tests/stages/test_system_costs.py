"""Which row a report is about, and what a row took, by the manifests of the steps behind its run."""

from pathlib import Path
from typing import Any

import pytest

from hardneg.recipes import find_recipe, load_recipe
from hardneg.records import RecipeError
from hardneg.stages import ArtifactInput
from hardneg.stages.report import began_from, nearest_model, row_of, steps_behind, system_costs

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
FACTS: dict[str, dict[str, Any]] = {
    "bm25-index": {"seconds": 8.0, "bytes": 2_000},
    "bm25": {"seconds": 1.0, "queries": 50},
    "bm25-train": {"seconds": 2.0, "queries": 500},
    "negatives": {"seconds": 4.0},
    "warm-up": {"seconds": 100.0, "steps": 10, "usage": {"device": "a GPU", "processes": 2}},
    "star": {"seconds": 200.0, "steps": 20, "usage": {"device": "a GPU", "processor": "a CPU", "processes": 1}},
    "star-index": {"seconds": 30.0, "bytes": 4_000, "usage": {"device": "cpu", "processor": "a CPU", "processes": 1}},
    "star-pq": {"seconds": 6.0, "bytes": 1_000},
    "star-test": {"seconds": 0.5, "queries": 50},
    "both": {"seconds": 0.25, "queries": 50},
}


@pytest.fixture
def made(tmp_path: Path) -> dict[str, ArtifactInput]:
    """Each step as the report's stage is handed it."""
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    specs = load_recipe(tmp_path / "recipe.yaml").stages
    return {name: ArtifactInput(name, "key", None, specs[name], facts=facts) for name, facts in FACTS.items()}


def test_the_steps_behind_a_run_are_each_there_once(made: dict[str, ArtifactInput]) -> None:
    specs = {name: item.spec for name, item in made.items() if item.spec}
    assert [*steps_behind(["bm25"], specs)] == ["bm25", "bm25-index"]
    found = [*steps_behind(["star-test", "both"], specs)]
    assert set(found) == set(FACTS) and len(found) == len(FACTS)


def test_trainings_before_the_last_one_count_and_a_compressed_index_has_its_own_size(made: dict[str, ArtifactInput]):
    found = system_costs(["star-test"], made)
    assert (found.training, found.indexing, found.size, found.query) == (300.0, 36.0, 1_000, 10.0)
    assert found.steps == 8 + 2 + 4 + 100 + 200 + 30 + 6 + 0.5
    assert sorted(found.devices) == ["2 × a GPU", "a CPU", "a GPU"]


def test_what_is_not_trained_has_no_training(made: dict[str, ArtifactInput]) -> None:
    found = system_costs(["bm25"], made)
    assert (found.training, found.indexing, found.size, found.query, found.steps) == (None, 8.0, 2_000, 20.0, 9.0)


def test_a_fused_run_has_what_all_of_its_parts_take(made: dict[str, ArtifactInput]) -> None:
    found = system_costs(["both"], made)
    assert (found.indexing, found.size, found.query) == (44.0, 3_000, 20.0 + 10.0 + 5.0)


def test_of_several_seeds_it_is_the_mean_and_an_unknown_time_leaves_the_sum_unknown(made: dict[str, ArtifactInput]):
    assert system_costs(["bm25", "star-test"], made).query == 15.0
    made["star"] = ArtifactInput("star", "key", None, made["star"].spec, facts={"steps": 20})
    found = system_costs(["star-test"], made)
    assert (found.training, found.steps, found.indexing) == (None, None, 36.0)


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
