"""The loop: it learns, it can be killed, it stops early, it says what is wrong; and the files it leaves."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import torch
from toy import BagEncoder, Interrupted, options, toy_data

from hardneg.encoders import towers as precisions
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses import infonce, pairwise
from hardneg.records import errors
from hardneg.runtime import Silent
from hardneg.training import checkpoint, loop
from hardneg.training.loop import TrainingResult
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

HERE = Path(__file__).parent


def run(
    toy: Path, folder: Path, chosen: TrainOptions, encoder: Any = None, loss: Any = None, **more: Any
) -> TrainingResult:
    encoder, more = encoder or BagEncoder(), {"progress": Silent(), **more}
    return train(encoder, toy_data(toy), loss or pairwise.Star(), chosen, folder, **more)


@pytest.fixture
def spec(tiny_model: Path) -> ModelSpec:
    return ModelSpec(str(tiny_model), similarity="dot", query_length=16, document_length=24)


def weights(encoder: BagEncoder) -> list[np.ndarray]:
    return [tensor.detach().numpy().copy() for tensor in encoder.module.state_dict().values()]


@pytest.mark.parametrize("loss", [pairwise.Star(), pairwise.RankNet(), infonce.InfoNCE()], ids=repr)
def test_the_loss_goes_down(toy_folder, tmp_path, loss):
    result = run(toy_folder, tmp_path, options(max_steps=40, checkpoint_every=None), loss=loss)
    losses = [record["loss"] for record in result.history]
    assert len(losses) == result.steps == 40
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert [record["step"] for record in result.history] == list(range(1, 41))
    assert result.best is None
    assert result.skipped == {}


def test_a_warm_up_from_rate_0_takes_the_programs_rates(toy_folder, tmp_path):
    """W = 2 and S = 4, decaying from the first step: 0, 1/2, 1 - 2/4, 1 - 3/4 of the peak. Rate 0 moves nothing."""
    given = {"learning_rate": 0.01, "warmup_steps": 2, "warmup_from_zero": True, "decay_from_start": True}
    chosen, encoder = options(max_steps=4, stop_at=1, **given), BagEncoder()
    before = weights(encoder)
    run(toy_folder, tmp_path / "one", chosen, encoder)
    assert all(np.array_equal(x, y) for x, y in zip(before, weights(encoder), strict=True))
    history = run(toy_folder, tmp_path / "all", replace(chosen, stop_at=None)).history
    assert [record["learning_rate"] for record in history] == pytest.approx([0, 0.005, 0.005, 0.0025])


def test_two_runs_are_the_same_and_another_seed_is_not(toy_folder, tmp_path):
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        encoder = BagEncoder()
        run(toy_folder, tmp_path / name, options(seed=seed, max_steps=4), encoder)
        found.append(weights(encoder))
    assert all(np.array_equal(x, y) for x, y in zip(found[0], found[1], strict=True))
    assert not np.array_equal(found[0][0], found[2][0])


def test_the_caller_keeps_its_random_state_and_gets_the_model_in_evaluation_mode(toy_folder, tmp_path):
    encoder = BagEncoder()
    before = torch.get_rng_state()
    run(toy_folder, tmp_path, options(max_steps=2), encoder)
    assert torch.equal(before, torch.get_rng_state())
    assert not encoder.module.training


def start(toy: Path, folder: Path, optimizer: str, killed_at: int) -> int:
    command = [sys.executable, str(HERE / "toy.py"), str(toy), str(folder), optimizer, str(killed_at)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    return forked.run(command, env=environment).returncode


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_a_killed_run_ends_with_the_same_bytes(toy_folder, tmp_path, optimizer):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(toy_folder, whole, optimizer, 0) == 0
    assert start(toy_folder, broken, optimizer, 5) == -9
    assert (broken / "checkpoints" / "step-000000004").is_dir()
    assert start(toy_folder, broken, optimizer, 3) == -9
    assert start(toy_folder, broken, optimizer, 0) == 0
    names = ("model.safetensors", "optimizer.safetensors", "state.json")
    state = [f"checkpoints/step-000000012/{name}" for name in names]
    for name in ("final.safetensors", "history.jsonl", *state):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    assert {path.name for path in (broken / "checkpoints").iterdir()} == {"seconds", "step-000000012"}


def test_the_seconds_of_stopped_runs_are_known(toy_folder, tmp_path):
    assert run(toy_folder, tmp_path, options(max_steps=4)).earlier == 0
    noted = tmp_path / "checkpoints" / "seconds"
    assert 0 < float(noted.read_text()) < 60
    noted.write_text("100.5\n")
    assert run(toy_folder, tmp_path, options(max_steps=4)).earlier == 100.5
    for damaged in ("", "nan", "a day"):
        noted.write_text(damaged)
        assert run(toy_folder, tmp_path, options(max_steps=4)).earlier == 0
    noted.write_text("100.5\n")
    shutil.rmtree(tmp_path / "checkpoints" / "step-000000004")
    assert run(toy_folder, tmp_path, options(max_steps=4)).earlier == 0
    assert float(noted.read_text()) < 60


def test_where_steps_are_slow_a_stop_costs_what_the_clock_says(toy_folder, tmp_path, monkeypatch):
    whole, killed, chosen = BagEncoder(), BagEncoder(), options(max_steps=6, checkpoint_every=None)
    run(toy_folder, tmp_path / "whole", chosen, whole)
    saved, save = list[int](), checkpoint.Checkpoints.save

    def dying(self: checkpoint.Checkpoints, module: Any, optimizer: Any, state: Any) -> None:
        saved.append(state.step)
        save(self, module, optimizer, state)
        if saved == [1, 2, 3]:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(checkpoint.Checkpoints, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        run(toy_folder, tmp_path / "killed", chosen)
    run(toy_folder, tmp_path / "killed", chosen, killed)
    assert saved == [1, 2, 3, 4, 5, 6]
    assert all(np.array_equal(x, y) for x, y in zip(weights(whole), weights(killed), strict=True))


def test_half_written_checkpoints_are_ignored(toy_folder, tmp_path):
    first, second = BagEncoder(), BagEncoder()
    run(toy_folder, tmp_path, options(max_steps=4), first)
    partial = tmp_path / "checkpoints" / "step-000000099.partial"
    partial.mkdir()
    (partial / "state.json").write_text("{")
    hollow = tmp_path / "checkpoints" / "step-000000098"
    hollow.mkdir()
    (hollow / "state.json").write_text("{")
    result = run(toy_folder, tmp_path, options(max_steps=4), second)
    assert result.steps == 4
    assert all(np.array_equal(x, y) for x, y in zip(weights(first), weights(second), strict=True))


def test_checkpoints_of_another_run_are_refused(toy_folder, tmp_path):
    run(toy_folder, tmp_path, options(max_steps=2))
    run(toy_folder, tmp_path, options(max_steps=2, checkpoint_every=1))
    for other in (options(max_steps=2, seed=7), options(max_steps=3)):
        with pytest.raises(errors.TrainingError, match="a different model, data or options"):
            run(toy_folder, tmp_path, other)
    with pytest.raises(errors.TrainingError, match="a different model, data or options"):
        run(toy_folder, tmp_path, options(max_steps=2), loss=pairwise.RankNet())
    changed = BagEncoder()
    with torch.no_grad():
        changed.module.head.bias += 1
    with pytest.raises(errors.TrainingError, match="a different model, data or options"):
        run(toy_folder, tmp_path, options(max_steps=2), changed)


def scripted(values: list[float]) -> Any:
    stream = iter(values)
    return lambda: {"mrr@10": next(stream), "ndcg@10": 0.0}


def test_patience_stops_and_the_best_weights_come_back(toy_folder, tmp_path):
    chosen = options(max_steps=20, evaluate_every=2, patience=2, checkpoint_every=None)
    encoder, short = BagEncoder(), BagEncoder()
    result = run(toy_folder, tmp_path / "a", chosen, encoder, validate=scripted([0.1, 0.5, 0.4, 0.5]))
    assert (result.steps, result.best_step, result.best) == (8, 4, 0.5)
    assert [record["dev"]["mrr@10"] for record in result.history if "dev" in record] == [0.1, 0.5, 0.4, 0.5]
    kept = sorted(path.name for path in (tmp_path / "a" / "checkpoints").iterdir())
    assert kept == ["seconds", "step-000000004", "step-000000008"]
    constant = replace(chosen, decay="constant", warmup_steps=0)
    run(toy_folder, tmp_path / "b", replace(constant, max_steps=4, patience=None), short)
    again = BagEncoder()
    run(toy_folder, tmp_path / "c", constant, again, validate=scripted([0.1, 0.5, 0.4, 0.5]))
    assert all(np.array_equal(x, y) for x, y in zip(weights(short), weights(again), strict=True))
    resumed = run(toy_folder, tmp_path / "a", chosen, validate=scripted([]))
    assert (resumed.steps, resumed.best) == (8, 0.5)


def test_an_unknown_metric_is_named(toy_folder, tmp_path):
    with pytest.raises(errors.UsageError, match="unknown dev metric 'map'; available: mrr@10, ndcg@10"):
        run(toy_folder, tmp_path, options(max_steps=1, metric="map"), validate=scripted([0.1]))


def test_options_are_checked_first(toy_folder, tmp_path):
    with pytest.raises(errors.UsageError, match="batch_size must be at least 1, not 0; accumulate"):
        run(toy_folder, tmp_path, options(batch_size=0, accumulate=0))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_transformer_learns(toy_folder, tmp_path, spec, precision):
    found = []
    for checkpointing in (False, True):
        encoder = load_learner(spec, "cpu")
        chosen = options(max_steps=6, precision=precision, gradient_checkpointing=checkpointing)
        result = run(toy_folder, tmp_path / str(checkpointing), chosen, encoder)
        found.append([record["loss"] for record in result.history])
        assert not encoder.module.training
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0][-1] < found[0][0]


def test_a_transformer_in_bf16_goes_on_byte_for_byte(toy_folder, tmp_path, spec):
    def learnt(folder: str, progress: Any) -> dict[str, torch.Tensor]:
        encoder = load_learner(spec, "cpu")
        run(toy_folder, tmp_path / folder, options(max_steps=6, precision="bf16"), encoder, progress=progress)
        return encoder.module.state_dict()

    whole = learnt("whole", Silent())
    with pytest.raises(KeyboardInterrupt):
        learnt("broken", Interrupted(5))
    found = learnt("broken", Silent())
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.items())
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        ends = [tmp_path / folder / "checkpoints" / "step-000000006" / name for folder in ("whole", "broken")]
        assert ends[0].read_bytes() == ends[1].read_bytes()


def test_a_training_goes_on_in_the_precision_it_began_with(toy_folder, tmp_path, spec, monkeypatch):
    monkeypatch.setattr(precisions, "LARGE", 1)
    chosen = options(max_steps=6, precision="auto")

    def learning(way: str, folder: str, after: int | None = None) -> dict[str, torch.Tensor]:
        """The weights of a training on a machine whose own way this is."""
        monkeypatch.setattr(precisions, "has_bf16_units", lambda _: way == "bf16")
        encoder = load_learner(spec, "cpu")
        progress = Silent() if after is None else Interrupted(after)
        train(encoder, toy_data(toy_folder), pairwise.Star(), chosen, tmp_path / folder, progress=progress)
        return encoder.module.state_dict()

    half, full = learning("bf16", "half"), learning("fp32", "full")
    assert not all(torch.equal(tensor, full[name]) for name, tensor in half.items())
    with pytest.raises(KeyboardInterrupt):
        learning("bf16", "broken", after=5)
    found = learning("fp32", "broken")
    assert all(torch.equal(tensor, found[name]) for name, tensor in half.items())
    state = "checkpoints/step-000000006/state.json"
    states = [(tmp_path / folder / state).read_bytes() for folder in ("half", "broken")]
    assert states[0] == states[1] and b'weights": "bf16"' in states[0]


FIRST, SECOND, THIRD = ({"step": step, "text": "x" * 20} for step in (1, 2, 3))


def test_records_come_back(tmp_path: Path) -> None:
    history = checkpoint.History(tmp_path / "history.jsonl")
    assert history.read() == []
    for record in (FIRST, SECOND):
        history.add(record)
    assert history.read() == [FIRST, SECOND]
    history.truncate(1)
    assert history.read() == [FIRST]


class HalfFull(FileIO):
    """Takes the first ten bytes, then there is no room."""

    def write(self, data: Any) -> int:
        if len(data) > 30:
            return super().write(bytes(data)[:10])
        raise OSError(28, "No space left on device")


def test_what_a_full_disk_cuts_off_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.jsonl"
    history = checkpoint.History(path)
    history.add(FIRST)
    whole = path.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(Path, "open", lambda self, mode="r", **_: HalfFull(self, mode.replace("b", "")))
        history.add(SECOND)
    assert path.read_bytes() == whole
    history.add(SECOND)
    assert history.read() == [FIRST, SECOND]


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """One page of room: the record that crosses its end is cut off there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here: that takes root")
    try:
        history, added = checkpoint.History(disk / "made.jsonl"), 0
        with pytest.raises(OSError, match="No space left"):
            while True:
                history.add(FIRST)
                added += 1
        assert history.read() == [FIRST] * added and (disk / "made.jsonl").read_bytes().endswith(b"}\n")
        subprocess.run(["mount", "-o", "remount,size=16k", str(disk)], check=True)
        history.add(SECOND)
        assert history.read() == [FIRST] * added + [SECOND]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("left", ['{"step": 2, "te', '{"step": 2}'])
def test_what_a_kill_cuts_off_is_removed_by_the_next_record(tmp_path: Path, left: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(FIRST) + "\n" + left)
    assert checkpoint.History(path).read() == [FIRST]
    checkpoint.History(path).add(THIRD)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [FIRST, THIRD]


def test_a_line_of_two_torn_records_is_told_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text(f'{json.dumps(FIRST)}\n{{"step": 2, "te{json.dumps(SECOND)}\n{json.dumps(THIRD)}\n')
    assert checkpoint.History(path).read() == [FIRST, THIRD]
    assert "made.jsonl:2: skipped an incomplete record" in caplog.text


def equal(one: Encoder, other: Encoder) -> bool:
    there = other.module.state_dict()
    return all(torch.equal(tensor, there[name]) for name, tensor in one.module.state_dict().items())


def rates(result: TrainingResult) -> list[float]:
    return [record["learning_rate"] for record in result.history]


def test_a_run_that_stops_early_is_the_beginning_of_the_longer_one(toy_folder, tmp_path, spec):
    whole, short = load_learner(spec, "cpu"), load_learner(spec, "cpu")
    long = run(toy_folder, tmp_path / "long", options(max_steps=6, keep_every=2), whole)
    ended = run(toy_folder, tmp_path / "short", options(max_steps=6, stop_at=4), short)
    assert (long.steps, ended.steps) == (6, 4)
    assert rates(ended) == rates(long)[:4] and rates(ended)[-1] > rates(long)[-1] > 0
    kept = tmp_path / "long" / "kept"
    assert {path.name for path in kept.iterdir()} == {"step-2", "step-4", "step-6"}
    assert equal(load_learner(kept / "step-4", "cpu"), short)
    assert equal(load_learner(kept / "step-6", "cpu"), whole)
    assert not equal(load_learner(kept / "step-2", "cpu"), short)
    assert (tmp_path / "short" / "checkpoints" / "step-000000004").is_dir()
    assert not (tmp_path / "short" / "kept").exists()


def test_a_stopped_run_ends_with_the_same_kept_models(toy_folder, tmp_path, spec):
    chosen = options(max_steps=8, stop_at=6, keep_every=3, checkpoint_every=2)
    run(toy_folder, tmp_path / "whole", chosen, load_learner(spec, "cpu"))
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        run(toy_folder, broken, chosen, load_learner(spec, "cpu"), progress=Interrupted(5))
    (broken / "kept" / "step-6").mkdir()
    (broken / "kept" / ".step-6.0123abcd").mkdir()
    run(toy_folder, broken, chosen, load_learner(spec, "cpu"))
    assert {path.name for path in (broken / "kept").iterdir()} == {"step-3", "step-6"}
    for step in (3, 6):
        name = f"kept/step-{step}/model.safetensors"
        assert (tmp_path / "whole" / name).read_bytes() == (broken / name).read_bytes()


def test_dev_metrics_are_measured_where_it_stops(toy_folder, tmp_path, spec):
    chosen, measured = (options(max_steps=9, stop_at=3, evaluate_every=2), [0.1, 0.3])
    result = run(toy_folder, tmp_path, chosen, load_learner(spec, "cpu"), validate=scripted(measured))
    assert (result.best_step, result.best) == (3, 0.3)
