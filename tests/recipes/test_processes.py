"""A recipe on two processes: the bytes of one, and a clear line when one of them ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked
import pytest
from processes import TORCHRUN
from recipes.recipes import large_collection, small_tree, write_recipe
from waiting import wait_until

from hardneg.recipes import load_recipe, make_plan
from hardneg.store import Store

TWO = [*TORCHRUN, "2"]
SAME = ("start-index", "start-train", "static")
STEPS = ["--set", "stages.star.options.max_steps=120", "--set", "stages.star.options.checkpoint_every=10"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    return write_recipe(folder / "small.yaml", small_tree(large_collection(folder / "data"), tiny_model))


def start(recipe: Path, store: str, *more: str, launcher: Sequence[str] = ()) -> subprocess.Popen[str]:
    names = [*STEPS, "--store", store, "--output", f"{store}-out", "--device", "cpu"]
    command = [sys.executable, *launcher, "-m", "hardneg", "recipe", "run", str(recipe), *names, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    return forked.Program(command, cwd=recipe.parent, env=environment, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    errors = process.communicate()[1]
    return process.returncode, errors


def worker(launcher: int, rank: int) -> int:
    """The process that the launcher gave this number."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text().replace("LOCAL_RANK", "").replace(
            "GROUP_RANK", ""
        ):
            return int(child)
    raise AssertionError(f"no process has rank {rank}")


def killed_while_it_trains(recipe: Path) -> tuple[int, str]:
    running = start(recipe, "two", launcher=TWO)
    wait_until(lambda: list(recipe.parent.glob("two/*.partial/checkpoints/step-*")), running)
    os.kill(worker(running.pid, 1), signal.SIGKILL)
    return finish(running)


@pytest.fixture(scope="module")
def ran(recipe: Path) -> dict[str, Any]:
    """One process; two of which one is killed; two that go on."""
    one = start(recipe, "one", "--until", "static")
    killed = killed_while_it_trains(recipe)
    return {"one": finish(one), "killed": killed, "two": finish(start(recipe, "two", launcher=TWO))}


@pytest.mark.slow
def test_a_killed_process_ends_all(ran: dict[str, Any]) -> None:
    code, errors = ran["killed"]
    assert code != 0 and "Signal 9 (SIGKILL)" in errors


@pytest.mark.slow
def test_the_same_command_goes_on_and_finishes(ran: dict[str, Any], recipe: Path) -> None:
    code, errors = ran["two"]
    assert code == 0, errors
    assert errors.count("2 processes") == 1
    assert "static: in the store" in errors and "star: train" in errors
    assert "5 of 10 steps ran" in errors
    assert (recipe.parent / "two-out" / "metrics.json").exists()


@pytest.mark.slow
def test_the_bytes_are_those_of_one_process(ran: dict[str, Any], recipe: Path) -> None:
    assert ran["one"][0] == 0, ran["one"][1]
    steps = make_plan(load_recipe(recipe)).steps
    for name in SAME:
        one, two = (Store(recipe.parent / store).find(steps[name].key) for store in ("one", "two"))
        assert one is not None and two is not None
        files = sorted(path.name for path in one.path.iterdir() if path.name != "manifest.json")
        assert files == sorted(path.name for path in two.path.iterdir() if path.name != "manifest.json") != []
        for file in files:
            assert (one.path / file).read_bytes() == (two.path / file).read_bytes(), (name, file)


@pytest.mark.slow
def test_an_error_of_all_processes_is_told_once(ran: dict[str, Any], recipe: Path) -> None:
    bad = ["--set", "stages.star.options.weight_decay=1e38", "--until", "star"]
    code, errors = finish(start(recipe, "two", *bad, launcher=TWO))
    assert code != 0
    assert sum(line.startswith("hardneg:") and "lower the learning rate" in line for line in errors.splitlines()) == 1
