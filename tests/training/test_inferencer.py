"""The process beside the trainer: what it mines from, what it survives, and what is told of its end."""

import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recipes.recipes import stored_collection
from waiting import wait_until

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import errors, layout, types
from hardneg.training import refresh as mining
from hardneg.training.checkpoint import Checkpoints, Refresh, RefreshFolder, TrainState
from hardneg.training.methods import ance
from hardneg.training.options import RefreshOptions
from hardneg.training.refresh import AGAIN, Settings, serve


class Idle(Exception):
    """There is nothing to do."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    stored_collection(folder)
    return folder / "stored"


@pytest.fixture
def settings(collection: Path, tiny_model: Path, tmp_path: Path) -> Settings:
    scratch = tmp_path / "checkpoints"
    spec = ModelSpec(str(tiny_model), query_length=16, document_length=24)
    folders = {"collection": str(collection), "checkpoints": str(scratch), "refreshes": str(scratch / "refreshes")}
    options = RefreshOptions("every", 10, depth=10, negatives=4)
    return Settings(spec, split="train", options=options, seed=1, first=0, devices=["cpu"], threads=1, **folders)


def checkpoint(settings: Settings, step: int) -> None:
    """The start model with larger weights, as after `step` updates."""
    encoder = load_learner(settings.model, "cpu")
    with torch.no_grad():
        for weight in encoder.module.parameters():
            weight *= 1 + step / 100
    optimizer = torch.optim.SGD(encoder.module.parameters(), lr=1.0)
    Checkpoints(Path(settings.checkpoints), "toy").save(encoder.module, optimizer, TrainState(step))


def until_idle(settings: Settings) -> tuple[list[str], list[float | None]]:
    """What it tells, and how long it waited, until it waits for the trainer."""
    told, waits = list[str](), list[float | None]()

    def wait(seconds: float | None) -> None:
        waits.append(seconds)
        if seconds is None:
            raise Idle

    with pytest.raises(Idle):
        serve(settings, wait, told.append)
    return told, waits


def steps(settings: Settings) -> list[int]:
    return [record["step"] for record in RefreshFolder(Path(settings.refreshes)).records()]


def test_the_settings_of_an_adapter_come_back(settings, tmp_path):
    adapted = replace(settings, model=replace(settings.model, adapter=AdapterSpec(rank=2)))
    adapted.write(tmp_path / "settings.json")
    assert Settings.read(tmp_path / "settings.json") == adapted


def test_the_miner_and_the_filters_come_back_and_mine(settings, tmp_path):
    """A window behind the top of each query, without what scores high."""

    def mined(settings: Settings) -> list[types.Negatives]:
        until_idle(settings)
        return list(read_negatives(RefreshFolder(Path(settings.refreshes)).negatives(0)))

    window = replace(settings, miner=types.PluginSetting("window", {"skip": 4, "depth": 10}))
    before = mined(window)
    highest = max(float(item.scores[1]) for item in before)
    filters = (types.PluginSetting("scores", {"rule": "max-score", "threshold": highest}),)
    told = replace(window, refreshes=str(tmp_path / "told"), filters=filters)
    told.write(tmp_path / "settings.json")
    assert Settings.read(tmp_path / "settings.json") == told
    for one, two in zip(before, mined(Settings.read(tmp_path / "settings.json")), strict=True):
        assert len(one.negatives) == 4 and max(two.scores) <= highest


def test_positives_that_were_told_by_answers_are_known(settings, tmp_path):
    pairs = (("q0", "d5"), ("x", "d6"))
    rows = [types.Negatives(query_id, [doc_id], [], np.zeros(0, np.float32)) for query_id, doc_id in pairs]
    write_negatives(tmp_path / "told.arrow", rows)
    known = replace(settings, pseudo_positives=str(tmp_path / "told.arrow")).mining().data.positives
    assert known["x"] == ["d6"] and known["q0"] == ["d0", "d5"] and known["q1"] == ["d1"]


def test_it_mines_from_the_start_and_from_the_newest_checkpoint_that_is_due(settings):
    assert until_idle(settings) == ([], [None]) and steps(settings) == [0]
    checkpoint(settings, 9)
    until_idle(settings)
    checkpoint(settings, 20)
    until_idle(settings)
    assert steps(settings) == [0, 20]
    checkpoint(settings, 29)
    until_idle(settings)
    assert steps(settings) == [0, 20]


def test_negatives_to_begin_with_stand_for_the_start(settings):
    until_idle(replace(settings, first=10))
    assert steps(settings) == []
    checkpoint(settings, 10)
    until_idle(replace(settings, first=10))
    assert steps(settings) == [10]


def test_a_truncated_refresh_is_made_again(settings):
    until_idle(settings)
    path = RefreshFolder(Path(settings.refreshes)).negatives(0)
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    told, _ = until_idle(settings)
    assert len(told) == 1 and "has 100 bytes" in told[0] and told[0].endswith("mining it again")
    assert path.read_bytes() == whole and steps(settings) == [0]


def test_a_checkpoint_that_is_removed_while_it_is_read(settings, monkeypatch):
    checkpoint(settings, 10)
    load = Checkpoints.load_weights

    def removed(self: Checkpoints, module: Any, step: int) -> None:
        if step == 10:
            checkpoint(settings, 12)
            raise errors.ArtifactError("gone")
        load(self, module, step)

    monkeypatch.setattr(Checkpoints, "load_weights", removed)
    assert until_idle(settings)[0] == [] and steps(settings) == [12]


def test_a_checkpoint_that_cannot_be_read_is_an_error(settings):
    checkpoint(settings, 10)
    (Path(settings.checkpoints) / "step-000000010" / "model.safetensors").write_bytes(b"none")
    with pytest.raises(errors.ArtifactError, match="cannot be read"):
        until_idle(settings)


def test_a_full_disk_is_one_line_and_tried_again(settings, monkeypatch):
    mine, failures = mining.mine_refresh, [OSError(28, "No space left on device")]

    def full_once(*rest: Any) -> Any:
        if failures:
            raise failures.pop()
        return mine(*rest)

    monkeypatch.setattr(mining, "mine_refresh", full_once)
    told, waits = until_idle(settings)
    assert told == ["cannot write the negatives of step 0 (No space left on device); will retry"]
    assert waits == [AGAIN, None] and steps(settings) == [0]


def test_a_refresh_with_nothing_to_train_on_is_told_and_the_next_part_is_mined(settings, monkeypatch):
    """Not where training waits for it."""
    trainable, told = mining.Mining.trainable, list[str]()
    monkeypatch.setattr(mining.Mining, "trainable", lambda self, number: trainable(self, number) if number else [])
    with pytest.raises(errors.TrainingError, match="refresh 0: nothing to train on"):
        serve(settings, lambda seconds: None, told.append)
    checkpoint(settings, 10)

    def wait(seconds: float | None) -> None:
        if steps(settings) == [20]:
            raise Idle
        checkpoint(settings, 20)

    with pytest.raises(Idle):
        serve(replace(settings, first=10), wait, told.append)
    (line,) = told
    assert line.startswith("refresh 0: nothing to train on, as none of its 36 queries")
    assert line.endswith("; training continues with its current negatives")
    assert RefreshFolder(Path(settings.refreshes)).numbers() == [1]


def running(settings: Settings, monkeypatch: pytest.MonkeyPatch, program: str) -> tuple[ance.Process, list[str]]:
    Path(settings.refreshes).mkdir(parents=True)
    monkeypatch.setattr(ance, "PROGRAM", (sys.executable, "-c", program))
    told: list[str] = []
    found = ance.Process(settings, told.append)
    found.start()
    return found, told


def test_what_it_says_and_how_it_dies_is_told_and_it_is_started_again_some_times(settings, monkeypatch):
    hear = ance.Process._read_output
    monkeypatch.setattr(ance.Process, "_read_output", lambda *rest: time.sleep(0.3) or hear(*rest))
    found, told = running(settings, monkeypatch, "print('hello', flush=True); raise ValueError('no such thing')")

    def given_up() -> bool:
        found.check()
        return found.exhausted

    wait_until(given_up)
    assert told[::2] == ["inferencer: hello"] * ance.LIVES
    ends = told[1::2]
    assert ends[0] == "inferencer: exited with code 1 (ValueError: no such thing); restarted"
    assert ends[-1] == "inferencer: exited with code 1 (ValueError: no such thing); not restarted"
    assert len(ends) == ance.LIVES


def test_a_kill_is_told_and_a_refresh_gives_new_lives(settings, monkeypatch):
    found, told = running(settings, monkeypatch, "import sys; sys.stdin.read()")
    for _ in range(ance.LIVES + 1):
        found.lives = ance.LIVES
        assert found.running is not None
        found.running.kill()
        wait_until(lambda: found.check() or bool(told))
        assert told.pop() == "inferencer: was killed by SIGKILL; restarted"
    monkeypatch.setattr(ance, "PATIENCE", 500.0)
    found.stop()
    assert found.running.returncode == 0


def test_one_that_does_not_listen_is_killed(settings, monkeypatch):
    found, _ = running(settings, monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(ance, "PATIENCE", 0.1)
    found.stop()
    assert found.running is not None and found.running.returncode == -signal.SIGKILL


@pytest.mark.parametrize("needed", [True, False])
def test_training_goes_on_without_it_where_it_can(settings, monkeypatch, needed):
    found, told = running(settings, monkeypatch, "raise SystemExit(3)")
    place = RefreshFolder(Path(settings.refreshes))
    beside = ance.BackgroundProvider(found, place, needed, 10, told.append)
    if needed:
        with pytest.raises(errors.TrainingError, match="crashed too often before its first refresh"):
            beside.prepare(0)
    wait_until(lambda: beside.newest(0) is None and found.exhausted)
    assert told[-1] == "inferencer: exited with code 3; not restarted"
    (place.partial(0) / layout.NEGATIVES).write_text("")
    place.publish(Refresh(0, 5, 0, 0))
    beside.prepare(10)
    used = beside.newest(10)
    assert used is not None and used.step == 5
    assert beside.newest(4) is None


def test_what_was_mined_after_the_checkpoint_is_not_used(settings, monkeypatch):
    """Training was at step 30 and more when it was killed; the checkpoint that is left is that of step 20."""
    place = RefreshFolder(Path(settings.refreshes))
    for number, step in enumerate((20, 30)):
        (place.partial(number) / layout.NEGATIVES).write_text("")
        place.publish(Refresh(number, step, 0, 0))
    monkeypatch.setattr(ance, "PROGRAM", (sys.executable, "-c", "import sys; sys.stdin.read()"))
    beside = ance.BackgroundProvider(ance.Process(settings, print), place, True, 10, print)
    beside.prepare(20)
    assert place.numbers() == [0] and beside.newest(20) == Refresh(0, 20, 0, 0)
    assert beside.newest(35) == Refresh(0, 20, 0, 0)
    beside.process.stop()
    shutil.rmtree(place.folder)
