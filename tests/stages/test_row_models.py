"""Which row a report is about: that of the model which the recipe hands out."""

import pytest

from hardneg.recipes import find_recipe, load_recipe
from hardneg.records import RecipeError
from hardneg.stages.report import began_from, nearest_model, row_of


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
