"""Texts in windows, passes and batches: tokenised ahead, joined, and smaller where memory is short."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hardneg.encoders import encoder as encoding, towers
from hardneg.encoders.encoder import Encoder, Inference
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec, Side
from hardneg.encoders.tokens import Tokens, token_batches
from hardneg.records import ModelError

FP32 = EncodeOptions(tokens_per_batch=64, precision="fp32")
TEXTS = ["word " * (n % 7) + str(n) for n in range(20)]
WINDOWS = [(start, TEXTS[start : start + 4]) for start in range(0, 20, 4)]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def test_windows_come_in_order_whichever_is_tokenised_first(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first window waits until the second one is tokenised."""
    second = threading.Event()

    class Waiting(Encoder):
        def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
            assert texts[0] != TEXTS[0] or second.wait(60)
            made = encoder.tokenise(texts, side)
            if texts[0] == TEXTS[4]:
                second.set()
            return made

    monkeypatch.setattr(encoding, "TOKENISERS", 2)
    ready = Inference.of(Waiting(encoder.module, encoder.spec), "document", FP32)
    found = list(ready.windows(WINDOWS, lambda count: None))
    assert [start for start, *_ in found] == [0, 4, 8, 12, 16]
    vectors = np.concatenate([part for _, _, part, _ in found])
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS, "document", FP32), atol=1e-6)


def test_joined_windows_have_the_vectors_of_their_own_texts(encoder: Encoder) -> None:
    passes: list[int] = []
    ready = Inference.of(encoder, "document", FP32)
    alone = [part for _, _, part, _ in ready.windows(WINDOWS, lambda count: None)]
    found = list(replace(ready, joins=True, budget=towers.Budget(200)).windows(WINDOWS, passes.append))
    assert [start for start, *_ in found] == [0, 4, 8, 12, 16] and passes == [12, 8]
    for (_, _, part, _), expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-6)


def test_an_error_of_a_thread_reaches_the_caller(encoder: Encoder) -> None:
    class Failing(Encoder):
        def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
            if texts[0] == TEXTS[8]:
                raise ValueError("text 9")
            return encoder.tokenise(texts, side)

    failing = Failing(encoder.module, encoder.spec)
    found = Inference.of(failing, "document", FP32).windows(WINDOWS, lambda count: None)
    assert [next(found)[0], next(found)[0]] == [0, 4]
    with pytest.raises(ValueError, match="text 9"):
        next(found)


Rows = NDArray[np.int64]


def same(rows: Rows) -> Rows:
    return rows


def holding(most: int, lengths: Rows, tried: list[list[int]]) -> Callable[[Rows], int]:
    """Memory for so many tokens, padding included; gives how many rows a pass has."""

    def run(rows: Rows) -> int:
        tried.append(rows.tolist())
        if len(rows) * int(lengths[rows].max()) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return len(rows)

    return run


def test_items_are_begun_before_they_are_given():
    begun: list[int] = []
    items = (begun.append(item) or item for item in range(4))
    assert [(item, len(begun)) for item in towers.ahead(items, 2)] == [(0, 3), (1, 4), (2, 4), (3, 4)]


def test_a_pass_that_does_not_fit_is_halved_and_nothing_is_done_twice(caplog):
    """Lengths 9, 5, 5, 5, 2, 2 with 20 tokens: [9, 5] takes 18, and memory is for 10; a budget of 9 fits."""
    lengths, budget, tried = np.array([5, 2, 9, 5, 2, 5]), towers.Budget(20), list[list[int]]()
    with caplog.at_level(logging.WARNING):
        found = list(towers.in_passes(lengths, budget, token_batches, same, holding(10, lengths, tried), int))
    assert tried == [[2, 0], [2], [0], [3], [5], [1, 4]]
    assert [rows.tolist() for rows, _ in found] == tried[1:]
    assert budget.tokens == 9
    assert [record.getMessage() for record in caplog.records] == [
        "a pass of 18 tokens does not fit in device memory; continuing with 9"
    ]
    again = list[list[int]]()
    list(towers.in_passes(lengths, budget, token_batches, same, holding(10, lengths, again), int))
    assert again == tried[1:]


def test_what_is_done_before_stays_done():
    """The third pass of four is the first that does not fit."""
    lengths, tried, free = np.full(8, 3), list[list[int]](), [10, 10, 5, 5, 5, 5, 5]

    def run(rows: Rows) -> list[int]:
        tried.append(rows.tolist())
        if 3 * len(rows) > free.pop(0):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return rows.tolist()

    found = [made for _, made in towers.in_passes(lengths, towers.Budget(6), token_batches, same, run, int)]
    assert found == [[0, 1], [2, 3], [4], [5], [6], [7]] and tried[2] == [4, 5] and len(tried) == 7


def test_one_text_that_does_not_fit_is_told():
    lengths = np.array([7, 300])
    with pytest.raises(ModelError, match="a single text of 300 tokens does not fit in device memory; lower the"):
        list(towers.in_passes(lengths, towers.Budget(800), token_batches, same, holding(100, lengths, []), int))


def short_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, most: int) -> list[int]:
    """Memory for so many tokens; the sizes of passes that fitted."""
    sizes, whole = list[int](), getattr(owner, name)

    def run(self: Any, *given: Any) -> Any:
        features = next(each for each in given if isinstance(each, dict))
        if features["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        sizes.append(features["input_ids"].numel())
        return whole(self, *given)

    monkeypatch.setattr(owner, name, run)
    return sizes


def test_encoding_goes_on_in_smaller_passes(tiny_model, monkeypatch):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    texts, options = ["word " * (n % 7) + str(n) for n in range(40)], EncodeOptions(1000, "fp32", window=10)
    expected = encoder.encode(texts, "document", options)
    sizes = short_of(monkeypatch, type(encoder.representation), "run", 60)
    np.testing.assert_allclose(encoder.encode(texts, "document", options), expected, atol=1e-6)
    assert max(sizes) <= 60


SAME = {"attention_mask": 1, "token_type_ids": 4}


def tokens(left: bool = False) -> Tokens:
    columns = {"input_ids": np.array([5, 6, 7, 8, 9, 4]), "attention_mask": np.ones(6, np.int64)}
    return Tokens(columns, np.array([0, 1, 4, 4, 6]), {"input_ids": 3}, left, 0)


def test_rows_are_padded_to_the_longest():
    features = tokens().batch(np.array([3, 1]))
    assert features["input_ids"].tolist() == [[9, 4, 3], [6, 7, 8]]
    assert features["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    empty = tokens().batch(np.array([2, 0]))
    assert (empty["input_ids"].tolist(), empty["attention_mask"].tolist()) == ([[3], [5]], [[0], [1]])
    assert tokens(left=True).batch(np.array([0, 3]))["input_ids"].tolist() == [[5, 3], [9, 4]]  # behind, on any side


def test_batches_by_hand():
    lengths = np.array([2, 9, 4, 4, 1])
    assert [batch.tolist() for batch in token_batches(lengths, 8)] == [[1], [2, 3], [0, 4]]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 100))
def test_each_row_once_and_never_too_many_tokens(lengths: list[int], budget: int):
    batches = list(token_batches(np.array(lengths, np.int64), budget))
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget


def test_further_inputs_are_made_from_the_lengths():
    made = Tokens({"input_ids": np.array([5, 6, 7])}, np.array([0, 1, 3]), {"token_type_ids": 9}, False, 2, SAME)
    features = made.batch(np.array([0, 1]))
    assert features["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert features["token_type_ids"].tolist() == [[4, 9], [4, 4]]
    assert features["prompt_length"].tolist() == [2, 2]
    assert {value.dtype for value in features.values()} == {torch.int64}


def test_texts_of_several_parts_in_a_row():
    whole = Tokens.join([tokens(), tokens()])
    assert whole.offsets.tolist() == [0, 1, 4, 4, 6, 7, 10, 10, 12]
    assert whole.batch(np.array([7, 1]))["input_ids"].tolist() == [[9, 4, 3], [6, 7, 8]]
