"""Figures of steps: every one is told, whenever they are read; the first bad step is named."""

import pytest
import torch
from toy import BagEncoder, options, toy_data

from hardneg.losses.pairwise import Star
from hardneg.records.errors import TrainingError
from hardneg.runtime.progress import Silent
from hardneg.training import step as step_values
from hardneg.training.methods.dual_encoder import train
from hardneg.training.step import TakenStep, records


def step(number: int, losses: list[float], norm: float = 2.0) -> TakenStep:
    batches = [{"loss": torch.tensor(loss), "kept": 3.0} for loss in losses]
    ids, norms = [[f"q{number}-{place}"] for place in range(len(losses))], {"all": torch.tensor(norm), "none": 0.0}
    return TakenStep(number, ids, batches, 0.5, torch.tensor(norm), norms, {"seen": 7})


def test_records_have_means_and_what_else_was_told():
    norms = {"gradient_norm": 2.0, "gradient_norms": {"all": 2.0, "none": 0.0}}
    expected = {"step": 1, "loss": 1.5, "kept": 3.0, "learning_rate": 0.5, **norms, "seen": 7}
    assert list(records([step(1, [1.0, 2.0])])) == [expected] and list(records([])) == []


def test_steps_before_the_first_bad_one_are_told_and_it_is_named():
    found = records([step(1, [1.0]), step(2, [1.0, torch.nan]), step(3, [torch.nan])])
    assert next(found)["step"] == 1
    with pytest.raises(TrainingError, match="step 2: the loss is nan, with queries q2-1: lower"):
        next(found)
    with pytest.raises(TrainingError, match="step 4: the norm of the gradient is inf, with queries q4-0, q4-1: lower"):
        next(records([step(4, [1.0, 1.0], torch.inf)]))


def test_reading_later_changes_no_history(toy_folder, tmp_path, monkeypatch):
    chosen, found = options(max_steps=7, checkpoint_every=5, accumulate=2), []
    for most in (1, 3):
        monkeypatch.setattr(step_values, "AHEAD", {"cpu": most})
        folder = tmp_path / str(most)
        train(BagEncoder(), toy_data(toy_folder), Star(), chosen, folder, progress=Silent())
        found.append((folder / "history.jsonl").read_bytes())
    assert found[0] == found[1] and found[0].count(b"\n") == 7


def test_nothing_bad_is_saved(toy_folder, tmp_path, monkeypatch):
    """The third step is bad, and noticed where a checkpoint is to be written, after the fourth."""
    monkeypatch.setattr(step_values, "AHEAD", {"cpu": 100})
    encoder, chosen = BagEncoder(), options(max_steps=8, checkpoint_every=2, accumulate=1)
    calls: list[int] = []

    class Bad(Star):
        def __call__(self, batch: object) -> torch.Tensor:
            calls.append(1)
            return super().__call__(batch) * (torch.nan if len(calls) == 3 else 1.0)  # type: ignore[arg-type]

    with pytest.raises(TrainingError, match="step 3: the loss is nan"):
        train(encoder, toy_data(toy_folder), Bad(), chosen, tmp_path, progress=Silent())
    assert len(calls) == 4
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["seconds", "step-000000002"]
