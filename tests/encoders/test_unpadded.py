"""Texts in one row, without padding: what is packed by hand, and the vectors of padded ones for every architecture."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hardneg.encoders import inference
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.speed import attention
from hardneg.encoders.speed.attention import check_attention, one_by_one
from hardneg.encoders.speed.fastest import arranged
from hardneg.encoders.speed.packing import Packing, batches, keeps_apart, packing_of, packs
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.records.errors import ModelError
from hardneg.runtime.processor import Processor
from tests.encoders.test_architectures import LONG, TEXTS, tiny
from tests.encoders.test_hub_folders import PUBLISHED

CPU = torch.device("cpu")
MIXED = [*TEXTS, "two words", "", LONG, "<pad> in a text", *(f"passage {number} " * number for number in range(1, 30))]
_SLOW = pytest.mark.slow
THREE = ["Roberta", *(pytest.param(name, marks=_SLOW) for name in ("Bert", "ModernBert"))]
OTHERS = [pytest.param(name, marks=_SLOW) for name in ("XLMRoberta", "Electra", "DistilBert", "Qwen3", "Gemma3Text")]


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
    assert [rows.tolist() for rows in batches(lengths, 7, Packing())] == [[1], [3, 0], [4, 2]]
    assert [rows.tolist() for rows in batches(lengths, 7, None)] == [[1], [3], [0, 4], [2]]


def test_texts_with_tokens_that_nobody_looks_at_are_padded():
    ids, ends = np.ones(2, np.int32), np.array([0, 2])
    assert packs(Tokens({"input_ids": ids, "attention_mask": ids}, ends, {}, False, 0))
    assert not packs(Tokens({"input_ids": ids, "attention_mask": 1 - ids}, ends, {}, False, 0))
    assert not packs(Tokens({"input_ids": ids}, ends, {}, False, 0, {"attention_mask": 0}))


@pytest.mark.parametrize("reach", [(-1, -1), (-1, 0), (2, 2), (2, 0)])
def test_each_text_looks_at_itself_alone(reach):
    """As one attention over all tokens, masked by text and by distance."""
    draws = torch.Generator().manual_seed(0)
    query = torch.randn(9, 4, 8, generator=draws)
    key, value = (torch.randn(9, 2, 8, generator=draws) for _ in range(2))
    begins = torch.tensor([0, 4, 5, 9], dtype=torch.int32)
    found = one_by_one([query, key, value], (begins, 4), 0.3, reach)
    text, place = torch.tensor([0, 0, 0, 0, 1, 2, 2, 2, 2]), torch.arange(9)
    ahead = place - place[:, None]
    before, behind = (100 if side < 0 else side for side in reach)
    seen = (text == text[:, None]) & (ahead >= -before) & (ahead <= behind)
    whole = [part.transpose(0, 1) for part in (query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1))]
    wanted = scaled_dot_product_attention(*whole, attn_mask=seen, scale=0.3).transpose(0, 1)
    torch.testing.assert_close(found, wanted)


def encoder_of(folder: Path, name: str) -> Encoder:
    return load_learner(ModelSpec(str(tiny(folder, name)), query_length=64, document_length=300), "cpu")


def encoded(encoder: Encoder, kind: Any, way: Any, budget: int = 400) -> Any:
    return encoder.encode(MIXED, kind, EncodeOptions(budget, "fp32", attention=way))


@pytest.mark.parametrize("name", [*THREE, *OTHERS])
def test_vectors_are_those_of_padded_texts(name, tmp_path):
    encoder = encoder_of(tmp_path, name)
    for kind in ("query", "document"):
        for budget in (1, 400, 100_000):
            usual, found = (encoded(encoder, kind, way, budget) for way in ("sdpa", "unpadded"))
            np.testing.assert_allclose(found, usual, atol=1e-5, rtol=0)
    assert encoder.parts("query")[0].model.config._attn_implementation == "sdpa"


def test_no_padding_is_computed(tiny_model, monkeypatch):
    seen: list[tuple[int, list[int]]] = []

    def listened(qkv: list[Tensor], bounds: Any, *rest: Any) -> Tensor:
        seen.append((len(qkv[0]), bounds[0].tolist()))
        return one_by_one(qkv, bounds, *rest)

    monkeypatch.setattr(attention, "one_by_one", listened)
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    encoded(encoder, "document", "unpadded", 100_000)
    tokens, bounds = seen[-1]
    lengths = encoder.tokenise(MIXED, "document").lengths
    assert tokens == bounds[-1] == lengths.sum()
    assert len(bounds) == len(MIXED) + 1


@pytest.mark.parametrize(("similarity", "pooling"), [("dot", "cls"), ("cosine", "mean"), ("dot", "lasttoken")])
def test_poolings_without_their_prompt(tiny_model, similarity, pooling):
    spec = ModelSpec(str(tiny_model), pooling=pooling, similarity=similarity, query_prompt="a prompt: ")
    encoder = load_learner(spec, "cpu")
    encoder.parts("query")[1].include_prompt = False
    usual, found = (encoded(encoder, "query", way) for way in ("sdpa", "unpadded"))
    np.testing.assert_allclose(found, usual, atol=1e-5, rtol=0)


def test_padded_texts_go_through_an_unpadded_network_as_before(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    first = encoder.parts("document")[0]
    features = encoder.features(TEXTS, "document")
    alike = {name: value[2:3, :2] for name, value in encoder.features(["", "", ""], "document").items()}
    with torch.inference_mode():
        own = arranged(first, "unpadded", packed=True)
        for given in (features, {name: value for name, value in alike.items() if name != "attention_mask"}):
            torch.testing.assert_close(
                own(dict(given))["token_embeddings"], first(dict(given))["token_embeddings"], atol=1e-5, rtol=0
            )


def test_what_a_network_adds_to_its_scores_is_not_left_out():
    module, part = torch.nn.Module(), torch.ones(1, 1, 2, 4)
    with pytest.raises(ModelError, match="attention is unpadded, and a Module has a softcap: leave it out"):
        attention._unpadded(module, part, part, part, None, softcap=3.0)


def test_what_cannot_be_packed_is_told(tmp_path):
    with pytest.raises(ModelError, match="attention is unpadded, and a MPNetModel here does not take texts in one row"):
        encoded(encoder_of(tmp_path, "MPNet"), "document", "unpadded")


@pytest.mark.parametrize("name", ["LFM2", "Granite hybrid"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_texts_that_a_network_mixes_are_padded(name, precision, tmp_path, monkeypatch):
    """Convolutions and recurrences go on from one text to the next: found once, by vectors, in either precision."""
    asked: list[bool] = []
    own, compared = inference.arranged, inference.keeps_apart

    def packs_wherever_it_may(first: Any, way: Any, compiled: bool, half: bool, packed: bool = False) -> Any:
        asked.append(packed)
        return own(first, "unpadded" if packed else "sdpa", compiled, half, packed)

    encoder = load_learner(ModelSpec(str(PUBLISHED[name].write(tmp_path))), "cpu", precision)
    usual = encoder.encode(MIXED, "document", EncodeOptions(400, precision))
    with pytest.raises(ModelError, match=r"in a \w+Model texts in one row change each other's vectors: leave it out"):
        encoder.encode(MIXED, "document", EncodeOptions(400, precision, attention="unpadded"))
    monkeypatch.setattr(inference, "arranged", packs_wherever_it_may)
    monkeypatch.setattr(inference, "keeps_apart", lambda *_: asked.append(True) or compared(*_))
    found = [encoder.encode(MIXED, "document", EncodeOptions(400, precision)) for _ in range(2)]
    assert asked == [True, False, True, False]
    assert all(np.array_equal(each, usual) for each in found)


def test_texts_at_other_positions_are_not_apart(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu", "fp32")
    first, *rest = encoder.parts("document")
    run = partial(
        encoder.representation.run, [arranged(first, "unpadded", packed=True), *rest], device=CPU, side="query"
    )
    tokens = encoder.tokenise(["a long text", "one", "and two"], "document")
    with torch.inference_mode():
        assert keeps_apart(run, tokens, Packing(), CPU, torch.float32)
        assert not keeps_apart(run, tokens, Packing(7), CPU, torch.float32)


class OnGpu:
    """A network of transformers on a GPU."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        self.device, self.dtype = torch.device("cuda"), dtype
        self.config = type("Config", (), {"_attn_implementation": "sdpa"})()

    def is_backend_compatible(self) -> bool:
        return True

    def parameters(self) -> list[Tensor]:
        return [torch.ones(3)]


def test_on_a_gpu_it_takes_a_kernel_and_half_precision(monkeypatch):
    check_attention("unpadded", OnGpu(), packed=True)
    with pytest.raises(ModelError, match="which on a GPU takes bf16 or fp16, and this is fp32: precision bf16, or"):
        check_attention("unpadded", OnGpu(torch.float32), packed=True)
    monkeypatch.setattr(attention, "has_kernel", lambda: False)
    with pytest.raises(ModelError, match=r"for which this torch has no kernel: install torch 2\.11 or later, or"):
        check_attention("unpadded", OnGpu(), packed=True)


def test_auto_is_unpadded_on_a_gpu_in_half_precision_alone(monkeypatch):
    monkeypatch.setattr(attention, "processor_of", lambda device: Processor(device.type, bf16=True))
    assert attention._of_processor(OnGpu(), packed=True) == "unpadded"
    assert attention._of_processor(OnGpu(), packed=False) == "auto"
    assert attention._of_processor(OnGpu(torch.float32), packed=True) == "auto"
    monkeypatch.setattr(attention, "has_kernel", lambda: False)
    assert attention._of_processor(OnGpu(), packed=True) == "auto"


def test_a_packed_copy_alone_takes_packed_texts(tiny_model):
    first, *_ = load_learner(ModelSpec(str(tiny_model)), "cpu").parts("document")
    own = arranged(first, "unpadded", packed=True)
    assert packing_of(first) is None and packing_of(own) == Packing()


def older_kernel(query, key, value, begins, _begins, longest, _longest, *, scale=None, window_size=(-1, -1)):
    """torch 2.11's kernel by its parameters: all have as many heads."""
    assert query.shape[1] == key.shape[1] == value.shape[1]
    return attention.one_by_one([query, key, value], (begins, longest), scale, window_size)


def newer_kernel(query, key, value, *bounds, scale=None, window_size=(-1, -1), enable_gqa=False):
    """torch 2.12's: it takes fewer heads of keys where it is told so."""
    assert enable_gqa == (query.shape[1] != key.shape[1])
    return attention.one_by_one([query, key, value], (bounds[0], bounds[2]), scale, window_size)


def oldest_kernel(query, key, value, begins, _begins, longest, _longest):
    """torch 2.10's, without a scale and a window."""


@pytest.mark.parametrize("kernel", [older_kernel, newer_kernel])
def test_the_kernel_gets_what_its_torch_takes(monkeypatch, kernel):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    attention.kernel_options.cache_clear()
    assert attention.has_kernel()
    query, key, value = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 2, 8)
    bounds = (torch.tensor([0, 2, 5], dtype=torch.int32), 3)
    found = attention.by_kernel([query, key, value], bounds, 0.5, (1, 0))
    torch.testing.assert_close(found, attention.one_by_one([query, key, value], bounds, 0.5, (1, 0)))
    attention.kernel_options.cache_clear()


def test_a_kernel_without_a_window_is_none(monkeypatch):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    monkeypatch.setattr(varlen, "varlen_attn", oldest_kernel)
    attention.kernel_options.cache_clear()
    assert not attention.has_kernel()
    attention.kernel_options.cache_clear()
