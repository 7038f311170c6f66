"""Batched attention is softmax(Q Kᵀ) V, for padded texts and large scores too; what cannot be had is told."""

from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertConfig

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.speed import attention
from hardneg.encoders.speed.attention import attended, check_attention
from hardneg.encoders.speed.fastest import arranged
from hardneg.records.errors import ModelError
from hardneg.runtime.processor import Processor

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


@pytest.mark.parametrize("name", ["sdpa", "eager", "batched"])
def test_every_way_gives_the_same_vectors(encoder, name):
    usual = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16"))
    found = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16", attention=name))
    assert (usual * found).sum(axis=1).min() > 0.9999
    own = encoder.parts("document")[0].model
    assert own.config._attn_implementation == "sdpa" and own.dtype == torch.float32


def test_batched_attention_is_what_runs(encoder, monkeypatch):
    called: list[Tensor | None] = []

    def seen(*parts: Any) -> Tensor | None:
        called.append(parts[3])
        return attended(*parts)

    monkeypatch.setattr(attention, "attended", seen)
    encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16", attention="batched"))
    layers = encoder.parts("document")[0].model.config.num_hidden_layers
    assert len(called) == layers and called[0] is not None
    assert called[0].sum() > 0, "padding is taken out"


@pytest.mark.parametrize(("bf16", "own"), [(True, "hardneg_batched"), (False, "sdpa")])
def test_auto_is_batched_in_bfloat16_alone_on_units_for_it(encoder, bf16, own, monkeypatch):
    monkeypatch.setattr("hardneg.encoders.speed.fastest.LARGE", 1)
    monkeypatch.setattr(attention, "processor_of", lambda device: Processor(device.type, bf16))
    plain, half = (arranged(encoder.parts("document")[0], half=half).model for half in (False, True))
    assert [model.config._attn_implementation for model in (plain, half)] == ["sdpa", own]


@pytest.mark.parametrize(
    ("name", "told"),
    [("flash_attention_2", "needs a GPU by CUDA; this is cpu"), ("flash_attention_3", "needs a GPU by CUDA")],
)
def test_what_this_machine_has_not_is_told(encoder, name, told):
    with pytest.raises(ModelError, match=f"attention is {name}, which {told}.*leave it out"):
        encoder.encode(TEXTS, "document", EncodeOptions(attention=name))


class Stranger:
    """A network of transformers whose attention cannot be chosen."""

    def __init__(self, device: str) -> None:
        self.device, self.config = torch.device(device), BertConfig(attn_implementation="sdpa")

    def is_backend_compatible(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("name", "device", "told"),
    [
        ("eager", "cpu", "a Stranger has its own attention alone"),
        ("batched", "cuda", "is for CPUs; this is cuda"),
        ("flash_attention_2", "cuda", "flash_attn is not installed: pip install flash-attn"),
        ("flash_attention_3", "cuda", "flash_attn_interface is not installed: install what brings"),
    ],
)
def test_what_a_network_or_an_installation_has_not_is_told(name, device, told):
    with pytest.raises(ModelError, match=told):
        check_attention(name, Stranger(device))
    check_attention("auto", Stranger(device))
    check_attention("sdpa", Stranger(device))


@pytest.mark.parametrize("half", [False, True])
def test_a_copy_to_compute_with_takes_the_tokenizer_along_as_it_is(encoder, half):
    network = encoder.parts("document")[0]
    copied = arranged(network, half=half)
    assert copied is not network
    assert copied.processor is network.processor
