"""`recipe plan`: the table, JSON, and what is refused."""

import json
from pathlib import Path

import pytest
from command_line import call
from recipes.recipes import small_collection, small_tree, write_recipe


@pytest.fixture
def plan(tmp_path: Path, tiny_model: Path):
    path = write_recipe(tmp_path / "r.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))

    def asked(*words: object) -> tuple[int, str]:
        done = call("recipe", "plan", path, "--store", tmp_path / "store", *words)
        told = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
        return done.exit_code, done.output + told

    return asked


def test_each_step_has_its_key_and_a_plan_of_many_documents_their_items(plan):
    code, told = plan("--documents", "1e9")
    assert code == 0, told
    (head,) = (line for line in told.splitlines() if line.startswith("step"))
    assert head.split() == ["step", "stage", "state", "key", "items", "disk"]
    assert "1,000,000,000 passages" in told and "\nto run: " in told


def test_as_json_nothing_else_is_said(plan):
    code, told = plan("--json")
    content = json.loads(told[told.index("{") :])
    steps = {step["step"]: step for step in content["steps"]}
    index = steps["start-index"]
    assert code == 0 and index["stored"] is False and index["unit"] == "passages" and index["seconds"] is None
    assert len(index["key"]) == 32 and index["key"][:8] in plan()[1]
    assert content["to run"] == {"steps": len(steps), "disk": sum(step["disk"] for step in steps.values())}


def test_the_line_of_a_run_is_planned_with_its_output(plan, tmp_path: Path):
    assert plan("--output", str(tmp_path / "out"))[0] == 0 and not (tmp_path / "out").exists()
    (tmp_path / "a file").write_text("mine")
    code, told = plan("--output", str(tmp_path / "a file"))
    assert code == 1 and "a file: is a file; give the folder to write" in told
