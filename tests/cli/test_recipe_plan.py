"""`recipe plan` for machines that are named."""

import json
from pathlib import Path

import pytest
from command_line import call
from recipe.recipes import small_collection, small_tree, write_recipe


@pytest.fixture
def plan(tmp_path: Path, tiny_model: Path):
    path = write_recipe(tmp_path / "r.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))

    def asked(*words: object) -> tuple[int, str]:
        done = call("recipe", "plan", path, "--store", tmp_path / "store", *words)
        told = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
        return done.exit_code, done.output + told

    return asked


def test_machines_gpus_and_a_price_have_columns(plan):
    code, told = plan("--rates", "h100", "--machines", "2", "--gpus", "8", "--price", "2.5", "--documents", "1e9")
    assert code == 0, told
    head = [line for line in told.splitlines() if line.startswith("step")][1]
    assert all(name in head for name in ("GPU memory", "between machines", "GPU hours", "cost"))
    assert "1,000,000,000 passages" in told and "times are for 16 GPUs in 2 machines, H100" in told
    assert "guess: assumed, not measured anywhere" in told
    assert "too large: " not in told


def test_as_json_nothing_else_is_said(plan):
    code, told = plan("--rates", "h100", "--gpus", "4", "--price", "3", "--json")
    content = json.loads(told[told.index("{") :])
    machine = {"device": "H100", "gpu": True, "measured": None, "machines": 1, "processes": 4}
    assert code == 0 and content["machine"] == machine
    steps = {step["step"]: step for step in content["steps"]}
    index = steps["start-index"]
    assert index["gpus"] == 4 and index["cost"] == pytest.approx(3 * index["gpu_hours"], abs=1e-3)
    assert content["to run"]["cost"] == pytest.approx(sum(step["cost"] for step in steps.values()), abs=1e-3)
    assert set(index["from"]) <= {"measured", "stated", "data sheet", "guess"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--gpus 2", "--gpus 2: this machine has no GPU"),
        ("--price 2", "--price is a GPU's, and this plan has none"),
        ("--rates h10", "no file of that name"),
        ("--rates h100 --gpus 2 --num-processes 2", "leave out --num-processes"),
        ("--machines 3 --num-processes 2", "fewer than --machines 3"),
        ("--documents many", "must be a whole number above 0, such as 1e9"),
        ("--documents 1.5", "must be a whole number above 0"),
    ],
)
def test_what_cannot_be_planned_for_is_refused(plan, words, told):
    code, said = plan(*words.split())
    assert code != 0 and told in " ".join(said.replace("│", "").split())


def test_the_line_of_a_run_is_planned_with_its_output(plan, tmp_path: Path):
    assert plan("--output", str(tmp_path / "out"))[0] == 0 and not (tmp_path / "out").exists()
    (tmp_path / "a file").write_text("mine")
    code, told = plan("--output", str(tmp_path / "a file"))
    assert code == 1 and "a file: is a file; give the folder to write" in told
