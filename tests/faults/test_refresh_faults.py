"""Training beside the process that mines for it: either is killed at any moment, a file is cut, the disk is full."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from waiting import wait_until

from hardneg.training.methods import ance

INFERENCER = ance.PROGRAM[-1].encode()
PROGRAM = Path(__file__).with_name("refreshing.py")
STEPS = 50


def write(folder: Path, model: Path, **more: Any) -> Path:
    tree = small_tree(small_collection(folder / "data"), model)
    stages = {name: tree["stages"][name] for name in ("start-index", "start-train", "static")}
    stages["ance"] = {
        "stage": "train-refreshed",
        "loss": "infonce",
        "refresh": {"policy": "every", "every": 5, "depth": 10, "negatives": 4},
        "options": {"batch_size": 8, "max_steps": STEPS, "learning_rate": 0.001, "warmup_steps": 1},
        **more,
    }
    return write_recipe(folder / "refreshed.yaml", {**tree, "stages": stages, "presets": {}})


class Run:
    """The program at work in a folder of its own, in which the store is."""

    def __init__(
        self, recipe: Path, store: Path, *rest: str, seconds: float = 0.05, before: tuple[str, ...] = ()
    ) -> None:
        command = [*before, sys.executable, str(PROGRAM), str(recipe), str(store), str(seconds), *rest]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
        self.store = store
        self.notes = store.with_suffix(".txt")
        with self.notes.open("a") as notes:
            start = subprocess.Popen if before else forked.Program
            self.process = start(command, stdout=notes, stderr=subprocess.PIPE, text=True, env=environment)

    def refreshes(self) -> list[Path]:
        return sorted(self.store.glob("*.partial/checkpoints/refreshes/0*[0-9]"))

    def steps(self) -> int:
        return sum(path.read_text().count("\n") for path in self.store.glob("*.partial/history.jsonl"))

    def inferencers(self) -> list[int]:
        """Those that this run, or one that is dead by now, has started."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if INFERENCER in words and any(str(self.store).encode() in word for word in words):
                found.append(int(path.parent.name))
        return found

    def until(self, condition: Callable[[], Any]) -> None:
        wait_until(condition, self.process)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        wait_until(lambda: not self.inferencers())

    def finish(self) -> str:
        errors = self.process.communicate()[1]
        assert self.process.returncode == 0, errors
        return self.notes.read_text()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "store"


def history(store: Path, left: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    (path,) = store.glob("*/history.jsonl")
    assert not path.parent.name.endswith(".partial")
    assert sorted(item.name for item in path.parent.iterdir()) == [*left, "history.jsonl", "manifest.json", "model"]
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_kills_of_both_at_any_moment(tmp_path: Path, store: Path, tiny_model: Path) -> None:
    draws, recipe = random.Random(11), write(tmp_path, tiny_model)
    for reached in (1, 20):
        run = Run(recipe, store, seconds=0.2)
        run.until(lambda run=run, reached=reached: run.steps() >= reached)
        time.sleep(draws.uniform(0, 1))
        run.kill()
    run = Run(recipe, store, seconds=0.2)
    run.until(lambda: run.inferencers() and run.steps() > 25)
    time.sleep(draws.uniform(0, 1))
    os.kill(run.inferencers()[0], signal.SIGKILL)
    told = run.finish()
    assert "inferencer: was killed by SIGKILL; restarted" in told
    records = history(store)
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert all(record["lag"] >= 0 for record in records)
    mined = [record["step"] - 1 - record["lag"] for record in records]
    assert mined == sorted(mined) and all(step % 5 == 0 for step in mined)
    assert run.inferencers() == []


@pytest.mark.slow
def test_a_truncated_refresh_is_told_and_not_used(tmp_path: Path, store: Path, tiny_model: Path) -> None:
    """Once while it is trained on, and once after a kill."""
    recipe = write(tmp_path, tiny_model)
    run = Run(recipe, store, seconds=1.0)  # so that the next refresh is seconds away
    run.until(lambda: run.steps() >= 2)
    os.truncate(run.refreshes()[-1] / "negatives.arrow", 100)
    reached = run.steps()
    run.until(lambda: run.steps() >= reached + 3)
    run.kill()
    os.truncate(run.refreshes()[-1] / "negatives.arrow", 101)
    told = Run(recipe, store, seconds=0).finish()
    for size in (100, 101):
        assert f"has {size} bytes instead of" in told
    assert "mining it again" in told and len(history(store)) == STEPS


@pytest.mark.slow
def test_a_full_disk_does_not_stop_the_training(tmp_path: Path, store: Path, tiny_model: Path) -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("no file system can be mounted here: that takes root")
    options = {"batch_size": 8, "max_steps": 120, "learning_rate": 0.001}
    recipe = write(tmp_path, tiny_model, negatives="static", options=options)
    told = Run(recipe, store, "20k", seconds=1.0, before=("unshare", "-m")).finish()
    assert told.count("(No space left on device); will retry") == 1
    assert "lag" in history(store, left=("checkpoints",))[-1], told  # which held a mounted file system
