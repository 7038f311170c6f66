"""Passes where memory is short: here a pass of more tokens than it holds fails as one on a GPU does."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.passes import Budget, ahead, in_passes
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import token_batches
from hardneg.records.errors import ModelError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairNetwork, PairScorer

Rows = NDArray[np.int64]


def same(rows: Rows) -> Rows:
    return rows


def unheard(rows: int) -> None:
    """Ignores progress."""


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
    assert [(item, len(begun)) for item in ahead(items, 2)] == [(0, 3), (1, 4), (2, 4), (3, 4)]


def test_a_pass_that_does_not_fit_is_halved_and_nothing_is_done_twice(caplog):
    """Lengths 9, 5, 5, 5, 2, 2 with 20 tokens: [9, 5] takes 18, and memory is for 10; a budget of 9 fits."""
    lengths, budget, tried = np.array([5, 2, 9, 5, 2, 5]), Budget(20), list[list[int]]()
    with caplog.at_level(logging.WARNING):
        found = list(in_passes(lengths, budget, token_batches, same, holding(10, lengths, tried), unheard))
    assert tried == [[2, 0], [2], [0], [3], [5], [1, 4]]
    assert [rows.tolist() for rows, _ in found] == tried[1:]
    assert budget.tokens == 9
    assert [record.getMessage() for record in caplog.records] == [
        "the device's memory does not hold a pass of 18 tokens: 9 from now on"
    ]
    again = list[list[int]]()
    list(in_passes(lengths, budget, token_batches, same, holding(10, lengths, again), unheard))
    assert again == tried[1:]


def test_what_is_done_before_stays_done():
    """The third pass of four is the first that does not fit."""
    lengths, tried, free = np.full(8, 3), list[list[int]](), [10, 10, 5, 5, 5, 5, 5]

    def run(rows: Rows) -> list[int]:
        tried.append(rows.tolist())
        if 3 * len(rows) > free.pop(0):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return rows.tolist()

    found = [made for _, made in in_passes(lengths, Budget(6), token_batches, same, run, unheard)]
    assert found == [[0, 1], [2, 3], [4], [5], [6], [7]] and tried[2] == [4, 5] and len(tried) == 7


def test_one_text_that_does_not_fit_is_told():
    lengths = np.array([7, 300])
    with pytest.raises(ModelError, match="a text of 300 tokens alone does not fit the device's memory: let texts be"):
        list(in_passes(lengths, Budget(800), token_batches, same, holding(100, lengths, []), unheard))


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


def test_reranking_goes_on_in_smaller_passes(tiny_model, monkeypatch):
    requests = [("a river", ["old bridge " * (n % 5) for n in range(20)]), ("blue", ["harbor"] * 9)]
    options = EncodeOptions(1000, "fp32", window=10)
    scorer = PairScorer.of(CrossEncoder(str(tiny_model), length=32).load(), "cpu", options)
    expected = [list(scores) for scores in scorer.rerank(requests)]
    sizes = short_of(monkeypatch, PairNetwork, "logits", 60)
    for found, wanted in zip(scorer.rerank(requests), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert max(sizes) <= 60
