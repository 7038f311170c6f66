"""Linear layers by oneDNN give what torch's give; only where the processor can."""

from typing import Any

import pytest
import torch
from torch import nn

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.speed import fastest
from hardneg.encoders.speed.fastest import OneDnnLinear, arranged, multiply_fastest
from hardneg.records.errors import ModelError
from hardneg.runtime.processor import Processor, bf16_on_cpu


@pytest.fixture(autouse=True)
def with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU of the kind that oneDNN is for, which has units for bfloat16 if this one has."""
    monkeypatch.setattr(fastest, "processor_of", lambda _: Processor("cpu", bf16_on_cpu()))


def changed(layer: nn.Module) -> nn.Sequential:
    network = nn.Sequential(layer)
    multiply_fastest(network)
    return network


def test_a_product_by_hand():
    layer = nn.Linear(2, 3)
    with torch.inference_mode():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]]))
        layer.bias.copy_(torch.tensor([0.5, 0.0, 1.0]))
        network = changed(layer)
        assert type(network[0]) is OneDnnLinear
        assert network(torch.tensor([[[2.0, 1.0]]])).tolist() == [[[4.5, 1.0, 6.0]]]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_it_is_what_torch_makes(bias, dtype, near):
    layer, rows = nn.Linear(48, 24, bias=bias, dtype=dtype), torch.randn(5, 7, 48, dtype=dtype)
    with torch.inference_mode():
        usual = layer(rows)
        torch.testing.assert_close(changed(layer)(rows), usual, rtol=near, atol=near)


def test_other_layers_stay_as_they_are(monkeypatch):
    layers: list[nn.Module] = [nn.Linear(8, 6).double(), nn.Linear(8, 6).half(), nn.LayerNorm(6)]
    assert [type(changed(layer)[0]) for layer in layers] == [nn.Linear, nn.Linear, nn.LayerNorm]
    monkeypatch.setattr(fastest, "processor_of", lambda _: Processor("cpu", bf16=False))
    assert type(changed(nn.Linear(8, 6))[0]) is OneDnnLinear
    assert type(changed(nn.Linear(8, 6).bfloat16())[0]) is nn.Linear


def test_a_model_that_computes_so_learns_as_before(tiny_model, monkeypatch):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    usual = encoder.encode(["some words"], "query", EncodeOptions(precision="fp32"))
    monkeypatch.setattr("hardneg.encoders.speed.fastest.LARGE", 1)
    own = encoder.parts("query")[0]
    copied = arranged(own)
    assert any(isinstance(part, OneDnnLinear) for part in copied.modules())
    assert not any(isinstance(part, OneDnnLinear) for part in own.modules())
    assert all(one is other for one, other in zip(own.parameters(), copied.parameters(), strict=True))
    found = encoder.encode(["some words"], "query", EncodeOptions(precision="fp32"))
    assert abs(found - usual).max() < 1e-6
    encoder.embed(encoder.features(["some words"], "query"), "query").sum().backward()


def test_without_a_compiler_compiling_is_refused(tiny_model, monkeypatch):
    monkeypatch.setattr(fastest.shutil, "which", lambda name: None)
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    with pytest.raises(ModelError, match="compile needs a compiler of C"):
        encoder.encode(["some words"], "query", EncodeOptions(compile=True))


def test_what_is_to_be_compiled_is_the_copy(tiny_model, monkeypatch):
    told: list[Any] = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **options: told.append((module, options)))
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    own = encoder.parts("query")[0]
    copied = arranged(own, compiled=True)
    assert told == [(copied.model, {"dynamic": True})] and copied.model is not own.model
