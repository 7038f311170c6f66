"""The stage `average` in a recipe."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from recipe.recipes import small_collection, small_tree, write_recipe
from tiny import tiny_encoder

from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.records.errors import RecipeError, UsageError
from hardneg.store.artifacts import Store


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_encoder(tmp_path / "model"))
    tree["stages"]["mean"] = {"stage": "average", "models": {"STAR": "star"}}
    return tree


def made(tmp_path: Path, tree: dict[str, Any], *settings: str) -> Any:
    plan = make_plan(load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=settings))
    return execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts


def test_a_model_that_is_made_once_a_seed_is_all_of_its_seeds(tmp_path: Path, tree: dict[str, Any]) -> None:
    recipe = load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=("seeds=[1,2]",))
    mean = recipe.stages["mean"]
    assert mean.models == {"STAR": {1: "star-seed-1", 2: "star-seed-2"}}
    assert mean.shares == {"STAR.1": 0.5, "STAR.2": 0.5}


def test_a_start_beside_all_seeds_has_the_weight_of_them_together(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["stages"]["mean"] |= {"models": {"STAR": "star", "before": "start"}, "weights": {"before": 3.0}}
    recipe = load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=("seeds=[1,2]",))
    assert recipe.stages["mean"].shares == {"STAR.1": 0.5, "STAR.2": 0.5, "before": 3.0}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"weights": {"STARS": 1}}, "weights: no model is called 'STARS'; did you mean 'STAR'?"),
        ({"choose": "greedy"}, "validation_run: missing; name a run of the dev queries"),
        ({"validation_run": "start-test"}, "validation_run: only with `choose: greedy`"),
        ({"weights": {"STAR": -1}}, "weights.STAR: must be greater than 0.0 (got -1)"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(tmp_path: Path, tree: dict[str, Any], setting: Any, problem: str) -> None:
    tree["stages"]["mean"] |= setting
    with pytest.raises(RecipeError) as told:
        load_recipe(write_recipe(tmp_path / "r.yaml", tree))
    assert problem in "\n".join(told.value.problems)


@pytest.mark.slow
def test_the_mean_is_a_row_of_the_report_and_may_be_chosen_on_dev(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["stages"]["start-dev"] = {"stage": "search", "index": "start-index", "split": "dev"}
    greedy = {"choose": "greedy", "validation_run": "start-dev"}
    tree["stages"]["best"] = {**tree["stages"]["mean"], **greedy}
    for name in ("mean", "best"):
        tree["stages"][f"{name}-index"] = {"stage": "encode", "model": name}
        tree["stages"][f"{name}-test"] = {"stage": "search", "index": f"{name}-index"}
        tree["stages"]["scores"]["runs"][f"{name} of seeds"] = f"{name}-test"
    artifacts = made(tmp_path, tree, "seeds=[1,2]")
    metrics = yaml.safe_load((artifacts["scores"].path / "metrics.json").read_text())["metrics"]
    assert {"mean of seeds", "best of seeds"} <= metrics.keys()
    assert artifacts["mean"].facts["models"] == 2
    assert set(artifacts["best"].facts["chosen"]) <= {"STAR.1", "STAR.2"}


@pytest.mark.slow
def test_one_model_alone_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="one model is its own average"):
        made(tmp_path, tree)
