"""The package that reads answers, as a stranger installs it beside hardneg's wheel: its verbs are found and planned."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recipe.questions import questions
from recipe.recipes import small_tree, write_recipe


@pytest.mark.slow
def test_its_verbs_run_beside_the_wheel(tmp_path: Path, tiny_model: Path, outside: Callable[..., str]) -> None:
    listed = outside("-m", "hardneg", "plugins", "list", "stages")
    assert "hardneg-reader" in listed and "train-reader" in listed
    tree = small_tree(questions(tmp_path / "data"), tiny_model)
    kept = {name: tree["stages"][name] for name in ("start-index", "start-test", "start-train")}
    trained = {
        "stage": "train-reader",
        "reader": {"name": str(tiny_model), "length": 48, "answer_length": 2},
        "run": "start-train",
        "depth": 4,
        "options": {"max_steps": 2, "batch_size": 2, "negatives_per_query": 1},
    }
    read = {"stage": "read", "reader": "reader", "run": "start-test", "passages": 2}
    recipe = write_recipe(tmp_path / "r.yaml", {**tree, "stages": {**kept, "reader": trained, "read": read}})
    outside("-m", "hardneg", "recipe", "run", recipe, "--output", tmp_path / "out", "--device", "cpu")
    assert (tmp_path / "out" / "answers" / "read.jsonl").is_file()
    assert (tmp_path / "out" / "readers" / "reader" / "reader.json").is_file()
