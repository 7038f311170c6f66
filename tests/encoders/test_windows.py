"""Windows of texts: tokenised ahead in several threads, joined where passes are large."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardneg.encoders import encoder as encoding
from hardneg.encoders.encoder import Encoder, Inference
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.passes import Budget
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import Tokens
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

    def tokens(texts: Sequence[str]) -> Tokens:
        assert texts[0] != TEXTS[0] or second.wait(60)
        made = encoder.tokenise(texts, "document")
        if texts[0] == TEXTS[4]:
            second.set()
        return made

    monkeypatch.setattr(encoding, "TOKENISERS", 2)
    ready = replace(Inference.of(encoder, "document", FP32), tokens=tokens)
    found = list(ready.windows(WINDOWS, lambda count: None))
    assert [start for start, *_ in found] == [0, 4, 8, 12, 16]
    vectors = np.concatenate([part for _, _, part, _ in found])
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS, "document", FP32), atol=1e-6)


def test_joined_windows_have_the_vectors_of_their_own_texts(encoder: Encoder) -> None:
    passes: list[int] = []
    ready = Inference.of(encoder, "document", FP32)
    alone = [part for _, _, part, _ in ready.windows(WINDOWS, lambda count: None)]
    found = list(replace(ready, joins=True, budget=Budget(200)).windows(WINDOWS, passes.append))
    assert [start for start, *_ in found] == [0, 4, 8, 12, 16] and passes == [12, 8]
    for (_, _, part, _), expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-6)


def test_counts_of_segments_are_in_the_order_of_the_texts(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "TOKENISERS", 4)
    cut = Segments(length=6, count=9)
    _, counts = encoder.encode_segments(TEXTS, cut, replace(FP32, window=18))
    assert counts.tolist() == encoder.segment(TEXTS, cut).counts.tolist()


def test_an_error_of_a_thread_reaches_the_caller(encoder: Encoder) -> None:
    def tokens(texts: Sequence[str]) -> Tokens:
        if texts[0] == TEXTS[8]:
            raise ValueError("text 9")
        return encoder.tokenise(texts, "document")

    found = replace(Inference.of(encoder, "document", FP32), tokens=tokens).windows(WINDOWS, lambda count: None)
    assert [next(found)[0], next(found)[0]] == [0, 4]
    with pytest.raises(ValueError, match="text 9"):
        next(found)
