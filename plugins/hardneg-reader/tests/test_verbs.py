"""The verbs before they run: what they ask of a recipe, what a plan says of them, what the installation lacks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import recipe_in, small_collection, small_tree

from hardneg.encoders.open.contract import BASE
from hardneg.recipes import estimate, make_plan, names
from hardneg.records import RecipeError
from hardneg.store import Store

READER = {"stage": "train-reader", "reader": "somebody/bert-base", "run": "start-train"}


def tree_with(tmp_path: Path, model: Path, **stages: Any) -> dict[str, Any]:
    tree = small_tree(small_collection(tmp_path / "data"), model)
    return {**tree, "stages": {**tree["stages"], "reader": READER, **stages}}


def test_a_plan_knows_the_network_of_a_reader(tmp_path: Path, tiny_model: Path) -> None:
    tree = tree_with(tmp_path, tiny_model, read={"stage": "read", "reader": "reader", "run": "start-test"})
    plan = make_plan(recipe_in(tmp_path, tree), [])
    rows = {row.step.name: row for row in estimate(plan, Store(tmp_path / "store"))}
    assert rows["reader"].disk == 4 * BASE.weights and rows["reader"].unit == "steps"
    laid_out = {"readers/reader/", "checkpoints/reader/", "answers/read.jsonl", "answers/read-metrics.json"}
    assert laid_out <= set(names(plan))


SEARCH = {"stage": "search", "index": "start-index", "split": "test", "depth": 5}


def test_runs_with_positives_that_were_not_found_are_not_read(tmp_path: Path, tiny_model: Path) -> None:
    added, again = {**SEARCH, "positives": True}, {**SEARCH, "candidates": "added"}
    asked = {"read": {"stage": "read", "reader": "reader", "run": "again"}}
    tree = tree_with(tmp_path, tiny_model, added=added, again=again, **asked)
    with pytest.raises(RecipeError) as caught:
        recipe_in(tmp_path, tree)
    told = "'again' comes from 'added', which lists positives that were not found; name one without `positives`"
    assert f"stages.read.run: {told}" in str(caught.value)


def test_a_run_of_another_split_does_not_judge(tmp_path: Path, tiny_model: Path) -> None:
    tree = tree_with(tmp_path, tiny_model, judged={**READER, "validation_run": "start-test"})
    with pytest.raises(RecipeError, match=r"stages\.judged.validation_run: 'start-test' is of split test"):
        recipe_in(tmp_path, tree)


def test_planning_loads_no_network_library() -> None:
    program = (
        "import sys, json, hardneg_reader.train_reader, hardneg_reader.read;"
        "print(json.dumps([each for each in ('torch', 'transformers', 'faiss', 'pyserini') if each in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
