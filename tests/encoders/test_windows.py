"""Windows of texts: tokenised ahead in several threads, joined where passes are large."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardneg.encoders import inference
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import encode_windows, prepare
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.passes import Budget
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.formats.segments import Segments

FP32 = EncodeOptions(tokens_per_batch=64, precision="fp32")
TEXTS = ["word " * (n % 7) + str(n) for n in range(20)]
WINDOWS = [(start, TEXTS[start : start + 4]) for start in range(0, 20, 4)]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def test_windows_come_in_order_whichever_is_tokenised_first(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first window waits until the second one is tokenised."""
    second = threading.Event()

    def tokens(start: int, texts: Sequence[str]) -> Tokens:
        assert start != 0 or second.wait(60)
        made = encoder.tokenise(texts, "document")
        if start == 4:
            second.set()
        return made

    monkeypatch.setattr(inference, "tokenising_threads", lambda: 2)
    ready = prepare(encoder, "document", FP32, tokens)
    found = list(encode_windows(ready, WINDOWS, lambda count: None))
    assert [start for start, _, _ in found] == [0, 4, 8, 12, 16]
    vectors = np.concatenate([part for _, part, _ in found])
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS, "document", FP32), atol=1e-6)


def test_joined_windows_have_the_vectors_of_their_own_texts(encoder: Encoder) -> None:
    passes: list[int] = []
    ready = prepare(encoder, "document", FP32, lambda _, texts: encoder.tokenise(texts, "document"))
    alone = [part for _, part, _ in encode_windows(ready, WINDOWS, lambda count: None)]
    found = list(encode_windows(replace(ready, joins=True, budget=Budget(200)), WINDOWS, passes.append))
    assert [start for start, _, _ in found] == [0, 4, 8, 12, 16] and passes == [12, 8]
    for (_, part, _), expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-6)


def test_counts_of_segments_are_in_the_order_of_the_texts(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "tokenising_threads", lambda: 4)
    cut = Segments(length=6, count=9)
    _, counts = encoder.encode_segments(TEXTS, cut, replace(FP32, window=18))
    assert counts.tolist() == encoder.segment(TEXTS, cut).counts.tolist()


def test_an_error_of_a_thread_reaches_the_caller(encoder: Encoder) -> None:
    def tokens(start: int, texts: Sequence[str]) -> Tokens:
        if start == 8:
            raise ValueError("text 9")
        return encoder.tokenise(texts, "document")

    found = encode_windows(prepare(encoder, "document", FP32, tokens), WINDOWS, lambda count: None)
    assert [next(found)[0], next(found)[0]] == [0, 4]
    with pytest.raises(ValueError, match="text 9"):
        next(found)


@pytest.mark.parametrize(("said", "threads"), [("false", 4), ("0", 4), ("true", 2)])
def test_threads_are_where_a_tokenizer_has_one_core(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", said)
    monkeypatch.setattr(inference.os, "cpu_count", lambda: 8)
    monkeypatch.setenv("RAYON_NUM_THREADS", "8")
    assert inference.tokenising_threads() == threads
