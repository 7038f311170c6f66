"""Checkpoints by the clock: as many steps between them as fit, and weights that do not depend on it."""

from typing import Any

import numpy as np
import pytest
from toy import BagEncoder, options, toy_data

from hardneg.losses.star import Star
from hardneg.runtime.progress import Silent
from hardneg.training import checkpoint, loop
from hardneg.training.checkpoint import FIRST, CheckpointClock, Checkpoints
from hardneg.training.methods import dual_encoder


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (checkpoint, loop):
            monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


def test_steps_fit_by_how_long_they_took(monkeypatch):
    hand = Hand(monkeypatch)
    found = CheckpointClock(minutes=10)
    assert (found.fitting(), found.due()) == (FIRST, False)
    hand.now += 60
    found.stepped(10, 60)
    assert (found.fitting(), found.due()) == (90, False)
    hand.now += 536
    found.stepped(90, 536)
    assert (found.fitting(), found.due()) == (1, True)
    found.saved()
    assert (found.fitting(), found.due()) == (100, False)


def test_none_leaves_it_to_the_steps():
    found = CheckpointClock(None)
    found.stepped(1, 1e6)
    assert found.fitting() is None
    assert not found.due()


def test_checkpoints_come_by_the_clock_and_change_nothing(toy_folder, tmp_path, monkeypatch):
    hand, saved = Hand(monkeypatch), []
    update, save = loop.update, Checkpoints.save

    def slow(*arguments: Any) -> Any:
        hand.now += 60
        return update(*arguments)

    def watched(self: Checkpoints, module: Any, optimizer: Any, state: Any) -> None:
        saved.append(state.step)
        save(self, module, optimizer, state)

    monkeypatch.setattr(loop, "update", slow)
    monkeypatch.setattr(Checkpoints, "save", watched)
    models = []
    for minutes, expected in ((None, [20, 40]), (5, [10, 15, 20, 25, 30, 35, 40]), (15, [15, 20, 35, 40])):
        saved.clear()
        chosen = options(max_steps=40, checkpoint_every=20, checkpoint_minutes=minutes)
        encoder = BagEncoder()
        dual_encoder.train(encoder, toy_data(toy_folder), Star(), chosen, tmp_path / str(minutes), progress=Silent())
        assert saved == expected
        models.append([tensor.numpy().copy() for tensor in encoder.module.state_dict().values()])
    history = (tmp_path / "None" / "history.jsonl").read_bytes()
    for minutes, model in zip((5, 15), models[1:], strict=True):
        assert (tmp_path / str(minutes) / "history.jsonl").read_bytes() == history
        assert all(np.array_equal(x, y) for x, y in zip(models[0], model, strict=True))
