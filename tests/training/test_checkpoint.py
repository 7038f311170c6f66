"""What a run leaves on disk: its learning curve, and the models kept on its way."""

import json
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import Interrupted, options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.pairwise import Star
from hardneg.runtime import Progress, Silent
from hardneg.training import checkpoint, loop
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

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
    assert "made.jsonl:2: not a complete record; skipped" in caplog.text


@pytest.fixture
def spec(tiny_model: Path) -> ModelSpec:
    return ModelSpec(str(tiny_model), similarity="dot", query_length=16, document_length=24)


def run(
    toy: Path, folder: Path, chosen: TrainOptions, encoder: Encoder, progress: Progress | None = None
) -> loop.TrainingResult:
    return train(encoder, toy_data(toy), Star(), chosen, folder, progress=progress or Silent())


def equal(one: Encoder, other: Encoder) -> bool:
    there = other.module.state_dict()
    return all(torch.equal(tensor, there[name]) for name, tensor in one.module.state_dict().items())


def rates(result: loop.TrainingResult) -> list[float]:
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
        run(toy_folder, broken, chosen, load_learner(spec, "cpu"), Interrupted(5))
    (broken / "kept" / "step-6").mkdir()
    (broken / "kept" / ".step-6.0123abcd").mkdir()
    run(toy_folder, broken, chosen, load_learner(spec, "cpu"))
    assert {path.name for path in (broken / "kept").iterdir()} == {"step-3", "step-6"}
    for step in (3, 6):
        name = f"kept/step-{step}/model.safetensors"
        assert (tmp_path / "whole" / name).read_bytes() == (broken / name).read_bytes()


def test_dev_metrics_are_measured_where_it_stops(toy_folder, tmp_path, spec):
    chosen, measured = (options(max_steps=9, stop_at=3, evaluate_every=2), iter([0.1, 0.3]))
    validate = lambda: {"mrr@10": next(measured)}  # noqa: E731
    result = train(
        load_learner(spec, "cpu"), toy_data(toy_folder), Star(), chosen, tmp_path, progress=Silent(), validate=validate
    )
    assert (result.best_step, result.best) == (3, 0.3)
