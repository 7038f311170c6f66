"""Texts packed in one row equal those packed by hand, and have the vectors of padded texts for every architecture.

Attention in each text, one after the other, replaces the GPU's kernel.
"""

from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_fast_cpu import attention, passes
from hardneg_fast_cpu.packing import Packing, keeps_apart
from plain import without_package
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import Tokens
from hardneg.encoders.towers import sharing
from hardneg.records import ModelError
from tests.encoders.test_hub_folders import PUBLISHED

CPU = torch.device("cpu")
LONG = " ".join(f"word{i}" for i in range(400))
TEXTS = ["hello", "the quick brown fox jumps over the lazy dog", "", LONG]
MIXED = [*TEXTS, "two words", "", LONG, "<pad> in a text", *(f"passage {number} " * number for number in range(1, 30))]


def one_by_one(qkv: list[Tensor], bounds: Any, scale: float, reach: tuple[int, int]) -> Tensor:
    """Compute the same as `by_kernel` on any device, by torch's attention in each text, masked by distance."""
    outputs = torch.empty_like(qkv[0])
    for start, stop in pairwise(bounds[0].tolist()):
        query, key, value = (part[start:stop].transpose(0, 1)[None] for part in qkv)
        ahead = torch.arange(stop - start) - torch.arange(stop - start)[:, None]
        before, behind = (stop if side < 0 else side for side in reach)
        seen, fewer = (ahead >= -before) & (ahead <= behind), key.shape[1] != query.shape[1]
        output = scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale, enable_gqa=fewer)
        outputs[start:stop] = output[0].transpose(0, 1)
    return outputs


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch, small_networks: None) -> None:
    """Make this CPU in float32 count as a GPU in half precision."""
    monkeypatch.setattr(attention, "by_kernel", lambda *given: one_by_one(*given))
    monkeypatch.setattr(passes, "may_pack", lambda transformer: True)


def some_tokens() -> Tokens:
    ids = np.array([7, 8, 1, 9, 5, 6], np.int32)
    return Tokens({"input_ids": ids}, np.array([0, 3, 4, 6]), {}, False, 2, {"attention_mask": 1, "token_type_ids": 1})


def test_two_texts_in_one_row_by_hand():
    found = Packing().features(some_tokens(), np.array([2, 0]), CPU)
    assert found["input_ids"].tolist() == [[5, 6, 7, 8, 1]]
    assert found["position_ids"].tolist() == [[0, 1, 0, 1, 2]]
    assert found["token_type_ids"].tolist() == [[1, 1, 1, 1, 1]]
    assert found["cu_seq_lens_q"].tolist() == found["cu_seq_lens_k"].tolist() == [0, 2, 5]
    assert found["cu_seq_lens_q"].dtype == torch.int32
    assert (found["max_length_q"], found["max_length_k"]) == (3, 3)
    assert found["prompt_length"].tolist() == [2, 2]
    assert "attention_mask" not in found


def test_positions_begin_behind_the_id_of_padding_which_has_none_of_its_own():
    found = Packing(2, 1).features(some_tokens(), np.array([0, 1, 2]), CPU)
    assert found["position_ids"].tolist() == [[2, 3, 1, 2, 2, 3]]


def test_batches_count_no_padding():
    lengths = np.array([3, 9, 1, 4, 2])
    assert [rows.tolist() for rows in Packing.batches(lengths, 7)] == [[1], [3, 0], [4, 2]]


def test_texts_with_tokens_that_nobody_looks_at_are_padded():
    ids, ends = np.ones(2, np.int32), np.array([0, 2])
    assert Packing.takes(Tokens({"input_ids": ids, "attention_mask": ids}, ends, {}, False, 0))
    assert not Packing.takes(Tokens({"input_ids": ids, "attention_mask": 1 - ids}, ends, {}, False, 0))
    assert not Packing.takes(Tokens({"input_ids": ids}, ends, {}, False, 0, {"attention_mask": 0}))


def encoder_of(folder: Path, name: str) -> Encoder:
    return load_learner(ModelSpec(str(PUBLISHED[name].write(folder)), query_length=64), "cpu")


def encoded(encoder: Encoder, kind: Any, way: Any = "auto", budget: int = 400) -> Any:
    with without_package() if way == "sdpa" else nullcontext():
        return encoder.encode(MIXED, kind, EncodeOptions(budget, "fp32"))


def test_vectors_are_those_of_padded_texts(tmp_path, packing):
    encoder = encoder_of(tmp_path, "all-distilroberta")
    for kind in ("query", "document"):
        for budget in (1, 400, 100_000):
            usual, found = (encoded(encoder, kind, way, budget) for way in ("sdpa", "auto"))
            np.testing.assert_allclose(found, usual, atol=1e-5, rtol=0)
    assert encoder.parts("query")[0].model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(("similarity", "pooling"), [("dot", "cls"), ("cosine", "mean"), ("dot", "lasttoken")])
def test_poolings_without_their_prompt(tiny_model, similarity, pooling, packing):
    spec = ModelSpec(str(tiny_model), pooling=pooling, similarity=similarity, query_prompt="a prompt: ")
    encoder = load_learner(spec, "cpu")
    encoder.parts("query")[1].include_prompt = False
    usual, found = (encoded(encoder, "query", way) for way in ("sdpa", "auto"))
    np.testing.assert_allclose(found, usual, atol=1e-5, rtol=0)


def test_padded_texts_go_through_an_unpadded_network_as_before(tiny_model, packing):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    first = encoder.parts("document")[0]
    features = encoder.features(TEXTS, "document")
    alike = {name: value[2:3, :2] for name, value in encoder.features(["", "", ""], "document").items()}
    with torch.inference_mode():
        passes.unpadded(own := sharing(first))
        for given in (features, {name: value for name, value in alike.items() if name != "attention_mask"}):
            torch.testing.assert_close(
                own(dict(given))["token_embeddings"], first(dict(given))["token_embeddings"], atol=1e-5, rtol=0
            )


def test_what_a_network_adds_to_its_scores_is_not_left_out():
    module, part = torch.nn.Module(), torch.ones(1, 1, 2, 4)
    with pytest.raises(ModelError, match="unpadded attention does not support the softcap of a Module; set"):
        attention._unpadded(module, part, part, part, None, softcap=3.0)


@pytest.mark.parametrize("name", [*PUBLISHED])
@pytest.mark.slow
def test_of_published_networks_those_pack_that_may(name, tmp_path, packing, monkeypatch):
    """In float32; networks that do not accept packed texts, or mix them, still pad them."""
    seen: list[Packing | None] = []
    own = passes.packing
    monkeypatch.setattr(passes, "packing", lambda *given: seen.append(own(*given)) or seen[-1])
    encoder = load_learner(ModelSpec(str(PUBLISHED[name].write(tmp_path))), "cpu", "fp32")
    found = encoded(encoder, "document")
    monkeypatch.setattr(passes, "LARGE", 1 << 40)
    usual = encoded(encoder, "document")
    assert [packed is not None for packed in seen] == [PUBLISHED[name].packed, False]
    np.testing.assert_allclose(found, usual, atol=1e-4, rtol=0)


def test_a_network_without_positions_as_input_pads(tmp_path, packing):
    encoder = encoder_of(tmp_path, "all-mpnet")
    parts = encoder.parts("document")
    assert passes.packing(encoder, "document", [sharing(parts[0]), *parts[1:]]) is None


@pytest.mark.parametrize("name", ["LFM2", "Granite hybrid"])
def test_texts_that_a_network_mixes_are_padded(name, tmp_path, monkeypatch, packing):
    """Convolutions and recurrences continue from one text to the next, which is detected once, from vectors."""
    asked: list[bool] = []
    compared = passes.keeps_apart
    encoder = load_learner(ModelSpec(str(PUBLISHED[name].write(tmp_path))), "cpu", "fp32")
    usual = encoded(encoder, "document", "sdpa")
    monkeypatch.setattr(passes, "keeps_apart", lambda *given: asked.append(True) or compared(*given))
    monkeypatch.setattr(passes.platform, "machine", lambda: "aarch64")
    found = [encoded(encoder, "document") for _ in range(2)]
    assert asked == [True] and all(np.array_equal(each, usual) for each in found)


def test_texts_at_other_positions_are_not_apart(tiny_model, packing):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu", "fp32")
    first, *rest = encoder.parts("document")
    passes.unpadded(own := sharing(first))
    run = partial(encoder.representation.run, [own, *rest], device=CPU, side="query")
    tokens = encoder.tokenise(["a long text", "one", "and two"], "document")
    with torch.inference_mode():
        assert keeps_apart(run, tokens, Packing(), CPU, torch.float32)
        assert not keeps_apart(run, tokens, Packing(7), CPU, torch.float32)


class OnGpu:
    """A network of transformers on a GPU."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        self.device, self.dtype = torch.device("cuda"), dtype


def test_it_is_for_half_precision_on_a_gpu_with_a_kernel(monkeypatch):
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: True)
    assert passes.may_pack(OnGpu()) and not passes.may_pack(OnGpu(torch.float32))
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: False)
    assert not passes.may_pack(OnGpu())
    monkeypatch.setattr(passes.runtime, "has_bf16_units", lambda device: True)
    monkeypatch.setattr(passes, "has_kernel", lambda: False)
    assert not passes.may_pack(OnGpu())


def older_kernel(query, key, value, begins, _begins, longest, _longest, *, scale=None, window_size=(-1, -1)):
    """Compute attention with the parameters of torch 2.11's kernel: queries and keys have equally many heads."""
    assert query.shape[1] == key.shape[1] == value.shape[1]
    return one_by_one([query, key, value], (begins, longest), scale, window_size)


def newer_kernel(query, key, value, *bounds, scale=None, window_size=(-1, -1), enable_gqa=False):
    """Compute attention with the parameters of torch 2.12's kernel: `enable_gqa` allows fewer heads of keys."""
    assert enable_gqa == (query.shape[1] != key.shape[1])
    return one_by_one([query, key, value], (bounds[0], bounds[2]), scale, window_size)


@pytest.mark.parametrize("kernel", [older_kernel, newer_kernel])
def test_the_kernel_gets_what_its_torch_takes(monkeypatch, kernel):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    attention.kernel_options.cache_clear()
    assert attention.has_kernel()
    query, key, value = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 2, 8)
    bounds = (torch.tensor([0, 2, 5], dtype=torch.int32), 3)
    found = attention.by_kernel([query, key, value], bounds, 0.5, (1, 0))
    torch.testing.assert_close(found, one_by_one([query, key, value], bounds, 0.5, (1, 0)))
    attention.kernel_options.cache_clear()
