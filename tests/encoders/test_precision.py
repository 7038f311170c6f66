"""Precision `auto` is what a trial of the network itself finds."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.speed import fastest as precision
from hardneg.encoders.speed.fastest import takes_bf16
from hardneg.store import speed_trials

USES = get_args(precision.Use)


@pytest.fixture
def network(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(speed_trials, "_known", {})
    monkeypatch.setattr(speed_trials, "_SECONDS", 0.0)
    monkeypatch.setattr(precision, "WORTH_A_TRIAL", 1)
    return Encoder.load(ModelSpec(str(tiny_model)), "cpu").module


def decided(monkeypatch: pytest.MonkeyPatch, way: str) -> list[str]:
    asked: list[str] = []

    def chosen(subject: str, machine: str, ways: Any) -> str:
        assert list(ways) == ["fp32", "bf16"]
        asked.append(subject)
        return way

    monkeypatch.setattr(precision, "choose", chosen)
    return asked


@pytest.mark.parametrize("way", ["fp32", "bf16"])
def test_auto_is_what_the_trial_says(network, way, monkeypatch):
    asked = decided(monkeypatch, way)
    assert [takes_bf16("auto", network, use) for use in USES] == [way == "bf16"] * 2
    weights = sum(weight.numel() for weight in network.parameters())
    assert asked == [f"{use} on cpu, {weights:,} weights" for use in USES]
    assert takes_bf16("bf16", network, "training") and not takes_bf16("fp32", network, "training")
    assert len(asked) == 2


def test_what_is_too_small_or_has_no_transformer_stays_in_float32(network, monkeypatch):
    asked = decided(monkeypatch, "bf16")
    assert not takes_bf16("auto", nn.Linear(2000, 2000), "inference")
    monkeypatch.setattr(precision, "WORTH_A_TRIAL", 1_000_000)
    assert not takes_bf16("auto", network, "inference")
    assert asked == []


@pytest.mark.parametrize("use", USES)
def test_a_trial_runs_both_ways_and_leaves_no_trace(network, use, monkeypatch):
    seen: list[tuple[torch.dtype, bool, bool]] = []
    transformer = network[0].model

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        dtype = next(part.parameters()).dtype if use == "inference" else output[0].dtype
        seen.append((dtype, part.training, torch.is_grad_enabled()))

    transformer.encoder.layer[0].attention.self.query.register_forward_hook(look)
    transformer.embeddings.train()
    before, state = {name: tensor.clone() for name, tensor in network.state_dict().items()}, torch.get_rng_state()
    modes = [part.training for part in network.modules()]
    takes_bf16("auto", network, use)
    learns = use == "training"
    assert set(seen) == {(torch.float32, learns, learns), (torch.bfloat16, learns, learns)}
    assert torch.equal(state, torch.get_rng_state())
    assert modes == [part.training for part in network.modules()]
    assert all(weight.grad is None and weight.dtype == torch.float32 for weight in network.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    (trial,) = [each for each in speed_trials.remembered() if each.subject.startswith(use)]
    assert set(trial.milliseconds) == {"fp32", "bf16"}
    assert f"threads, torch {torch.__version__}" in trial.machine


@pytest.mark.parametrize("way", ["fp32", "bf16"])
def test_encoding_follows_it(tiny_model, way, monkeypatch):
    monkeypatch.setattr(precision, "WORTH_A_TRIAL", 1)
    decided(monkeypatch, way)
    encoder = Encoder.load(ModelSpec(str(tiny_model)), "cpu")
    texts = ["some words", "and others"]
    found, told = encoder.encode(texts, "query"), encoder.encode(texts, "query", EncodeOptions(precision=way))
    assert (found == told).all()


def test_how_a_gpu_multiplies_is_not_asked_on_a_cpu(network, monkeypatch):
    """A trainer with `tf32=True` sets it for the whole process, in a way that torch's older question refuses."""
    asked = decided(monkeypatch, "fp32")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert not takes_bf16("auto", network, "inference")
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
    assert "tf32" not in asked[0]
