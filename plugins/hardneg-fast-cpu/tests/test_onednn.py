"""Linear layers by oneDNN give what torch's give; only where the processor can."""

import pytest
import torch
from hardneg_fast_cpu import passes
from hardneg_fast_cpu.passes import OneDnnLinear, arrange, multiply_by_onednn
from tiny import tiny_reranker
from torch import nn

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import sharing
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer


def changed(layer: nn.Module) -> nn.Sequential:
    network = nn.Sequential(layer)
    multiply_by_onednn(network)
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
    """In bfloat16 it is torch's own where there are no units for it."""
    layer, rows = nn.Linear(48, 24, bias=bias, dtype=dtype), torch.randn(5, 7, 48, dtype=dtype)
    with torch.inference_mode():
        usual = layer(rows)
        torch.testing.assert_close(changed(layer)(rows), usual, rtol=near, atol=near)


def test_other_layers_stay_as_they_are(monkeypatch):
    layers: list[nn.Module] = [nn.Linear(8, 6).double(), nn.Linear(8, 6).half(), nn.LayerNorm(6)]
    assert [type(changed(layer)[0]) for layer in layers] == [nn.Linear, nn.Linear, nn.LayerNorm]
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: False)
    assert type(changed(nn.Linear(8, 6))[0]) is OneDnnLinear
    assert type(changed(nn.Linear(8, 6).bfloat16())[0]) is nn.Linear


def test_a_model_that_computes_so_learns_as_before(tiny_model, monkeypatch):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    fp32 = EncodeOptions(precision="fp32")
    usual = encoder.encode(["some words"], "query", fp32)
    monkeypatch.setattr(passes, "LARGE", 1)
    own = encoder.parts("query")[0]
    copied = sharing(own)
    for machine, there in (("aarch64", False), ("x86_64", True)):
        monkeypatch.setattr(passes.platform, "machine", lambda named=machine: named)
        arrange(copied)
        assert any(isinstance(part, OneDnnLinear) for part in copied.modules()) == there
    assert not any(isinstance(part, OneDnnLinear) for part in own.modules())
    assert all(one is other for one, other in zip(own.parameters(), copied.parameters(), strict=True))
    found = encoder.encode(["some words"], "query", fp32)
    assert abs(found - usual).max() < 1e-6
    encoder.embed(encoder.features(["some words"], "query"), "query").sum().backward()


def test_encoding_and_scoring_compute_so(tiny_model, tmp_path, monkeypatch, small_networks):
    made: list[int] = []
    forward = OneDnnLinear.forward
    monkeypatch.setattr(OneDnnLinear, "forward", lambda *given: made.append(1) or forward(*given))
    load_learner(ModelSpec(str(tiny_model)), "cpu").encode(["some words"], "query", EncodeOptions(precision="fp32"))
    encoding = len(made)
    assert encoding > 0
    reranker = CrossEncoder(str(tiny_reranker(tmp_path / "reranker")), length=20).load()
    list(PairScorer.of(reranker, "cpu", EncodeOptions(precision="fp32")).rerank([("a query", ["a document"])]))
    assert len(made) > encoding
