"""Batched attention is softmax(Q Kᵀ) V, for padded texts and large scores too; linear layers by oneDNN."""

from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch
from hardneg_fast_cpu import attention, passes
from hardneg_fast_cpu.attention import attended
from hardneg_fast_cpu.passes import OneDnnLinear, arrange, multiply_by_onednn
from plain import without_package
from tiny import tiny_reranker
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import in_bfloat16, sharing
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer

TEXTS = ["a passage of several words", "short", "another passage, a longer one than the others are", ""]


def draws(texts: int = 3, heads: int = 2, length: int = 20, size: int = 8, scale: float = 1.0) -> list[Tensor]:
    source = torch.Generator().manual_seed(0)
    made = [torch.randn(texts, heads, length, size, generator=source) for _ in range(3)]
    return [part.bfloat16() for part in (scale * made[0], *made[1:])]


def exact(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
    mask = None if hidden is None else ~hidden[:, None, None]
    query, key, value = (part.double() for part in (query, key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0)


def of_one_head(*parts: list[float]) -> list[Tensor]:
    return [torch.tensor(part).view(1, 1, -1, 1).bfloat16() for part in parts]


def test_two_tokens_by_hand():
    """Scores of the query 2 are 2 and 4, so its weights are 1 and e² over their sum; the values are 1 and 5."""
    parts = ([2.0, 0.0], [1.0, 2.0], [1.0, 5.0])
    query, key, value = (torch.tensor(part).view(1, 1, 2, 1).bfloat16() for part in parts)
    found = attended(query, key, value, None)
    assert found is not None
    wanted = torch.tensor([(1 + 5 * exp(2)) / (1 + exp(2)), 3.0])
    torch.testing.assert_close(found.flatten().float(), wanted, rtol=0.01, atol=0)
    alone = attended(query, key, value, torch.tensor([[False, True]]))
    assert alone is not None and alone.flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("kept", [1, 1 << 20])
def test_it_is_as_near_as_the_library_s_own(padded, scale, kept, monkeypatch):
    monkeypatch.setattr(attention, "_BYTES", kept)
    query, key, value = draws(scale=scale)
    hidden = torch.arange(20) >= torch.tensor([20, 13, 6])[:, None] if padded else None
    found, wanted = attended(query, key, value, hidden), exact(query, key, value, hidden)
    assert found is not None
    mask = None if hidden is None else ~hidden[:, None, None]
    usual = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0)
    assert (found - wanted).norm() / wanted.norm() < max(0.01, 6 * (usual - wanted).norm() / wanted.norm())


def test_scores_beyond_what_exp_holds_are_shifted():
    """Unshifted e^200 is infinite; the weights of 200 and 199 are those of 1 and 0."""
    parts = ([1.0, 1.0], [200.0, 199.0], [0, 1])
    query, key, value = (torch.tensor(part).view(1, 1, 2, 1).bfloat16() for part in parts)
    found = attended(query, key, value, None)
    assert found is not None
    torch.testing.assert_close(found.flatten().float(), torch.full((2,), 1 / (1 + exp(1))), rtol=0.01, atol=0)


def test_weights_that_vanish_are_told():
    """The bound is 200, all scores are -200: shifted they are e^-340."""
    query, key, value = of_one_head([-1.0, -1.0], [200.0, 200.0], [1.0, 1.0])
    assert attended(query, key, value, None) is None
    module = torch.nn.Module()
    with torch.inference_mode():
        found, _ = attention._batched(module, query, key, value, None, scaling=1.0, is_causal=False)
    assert found.flatten().tolist() == [1.0, 1.0]


def test_causal_masks_and_fewer_key_heads_are_left_to_the_library(monkeypatch):
    monkeypatch.setattr(attention, "attended", lambda *_: pytest.fail("taken for the plain form"))
    query, key, value = draws()
    causal = torch.ones(20, 20, dtype=torch.bool).tril()[None, None].expand(3, 1, 20, 20)
    module: Any = torch.nn.Module()
    with torch.inference_mode():
        found, _ = attention._batched(module, query, key, value, causal, scaling=1.0)
        usual = scaled_dot_product_attention(query, key, value, attn_mask=causal, scale=1.0)
        assert torch.equal(found, usual.transpose(1, 2))
        attention._batched(module, query, key, value, None, is_causal=True)
        module.num_key_value_groups = 2
        attention._batched(module, query, key[:, :1], value[:, :1], None, is_causal=False)


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch, small_networks: None) -> None:
    """Make the CPU count as one with units for bfloat16; linear layers stay torch's, as it may have none."""
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: True)
    monkeypatch.setattr(passes.platform, "machine", lambda: "aarch64")


def test_batched_attention_is_what_runs_and_gives_the_same_vectors(encoder, monkeypatch, units):
    called: list[Tensor | None] = []

    def seen(*parts: Any) -> Tensor | None:
        called.append(parts[3])
        return attended(*parts)

    monkeypatch.setattr(attention, "attended", seen)
    with without_package():
        usual = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16"))
    found = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16"))
    assert (usual * found).sum(axis=1).min() > 0.9999
    own = encoder.parts("document")[0].model
    assert len(called) == own.config.num_hidden_layers and called[0] is not None
    assert called[0].sum() > 0, "padding is taken out"
    assert own.config._attn_implementation == "sdpa" and own.dtype == torch.float32


@pytest.mark.parametrize(("bf16", "own"), [(True, "hardneg_batched"), (False, "sdpa")])
def test_it_is_batched_in_bfloat16_alone_on_units_for_it(encoder, bf16, own, monkeypatch, units):
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: bf16)
    copies = [copy(encoder.parts("document")[0]) for copy in (sharing, in_bfloat16)]
    for copied in copies:
        passes.arrange(copied)
    assert [copied.model.config._attn_implementation for copied in copies] == ["sdpa", own]


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
    """In bfloat16, the layer stays torch's own if the CPU has no units for bfloat16."""
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
