"""Documents by the best of their vectors, against brute force and numbers by hand."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hardneg.indexes.kernels import candidate_scoring as max_passage
from hardneg.indexes.kernels.candidate_scoring import PooledSearcher, first_of_each
from hardneg.indexes.kernels.exact.exact import ExactOptions, search_exact
from hardneg.records.errors import UsageError
from hardneg.records.types import Hits


class Exact:
    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        return search_exact(self.vectors, queries, k, ExactOptions(device="cpu"))


def brute_force(vectors: NDArray[np.float32], first: NDArray[np.int64], queries: NDArray[np.float32], k: int) -> Hits:
    best = np.maximum.reduceat(queries @ vectors.T, first[:-1], axis=1)
    rows = np.argsort(-best, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(best, rows, 1)
    pad = ((0, 0), (0, k - rows.shape[1]))
    return Hits(np.pad(rows, pad, constant_values=-1), np.pad(scores, pad, constant_values=-np.inf))


def test_the_best_segment_counts() -> None:
    """Scores 1 5 | 4 | 5 2 6: the third document by its last, the first by its second, then the one of 4."""
    vectors = np.array([[1], [5], [4], [5], [2], [6]], np.float32)
    searcher = PooledSearcher(Exact(vectors), np.array([0, 2, 3, 6]))
    hits = searcher.search(np.ones((1, 1), np.float32), 2)
    assert hits.rows.tolist() == [[2, 0]] and hits.scores.tolist() == [[6, 5]]
    hits = searcher.search(np.ones((1, 1), np.float32), 5)
    assert hits.rows.tolist() == [[2, 0, 1, -1, -1]] and hits.scores[0, 2:].tolist() == [4, -np.inf, -np.inf]


def test_equal_documents_stay_in_the_order_of_the_corpus() -> None:
    """All three documents reach 3, the first of them by its last vector."""
    vectors = np.array([[0], [0], [3], [3], [3], [1]], np.float32)
    hits = PooledSearcher(Exact(vectors), np.array([0, 3, 4, 6])).search(np.ones((1, 1), np.float32), 2)
    assert hits.rows.tolist() == [[0, 1]]


def test_first_of_each_keeps_the_order_and_drops_pads() -> None:
    hits = Hits(np.array([[7, 3, 7, 3, 5, -1], [2, 2, 2, -1, -1, -1]]), np.arange(12, 0, -1, np.float32).reshape(2, 6))
    found = first_of_each(hits, 2)
    assert found.rows.tolist() == [[7, 3], [2, -1]]
    assert found.scores.tolist() == [[12, 11], [6, -np.inf]]


@settings(max_examples=150)
@given(st.data())
def test_it_is_brute_force(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    k, seed = data.draw(st.integers(1, 14)), data.draw(st.integers(0, 9999))
    draw = np.random.default_rng(seed)
    first = np.concatenate([[0], np.cumsum(counts)])
    vectors = draw.integers(-2, 3, (int(first[-1]), 2)).astype(np.float32)
    queries = draw.integers(-2, 3, (data.draw(st.integers(1, 5)), 2)).astype(np.float32)
    with patch.object(max_passage, "_EACH", data.draw(st.sampled_from([1, 2, 8]))):
        found = PooledSearcher(Exact(vectors), first).search(queries, k)
    expected = brute_force(vectors, first, queries, k)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_queries_are_searched_in_parts_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    vectors, queries = draw.normal(size=(40, 8)).astype(np.float32), draw.normal(size=(23, 8)).astype(np.float32)
    first = np.arange(0, 44, 4)
    monkeypatch.setattr(max_passage, "_HITS", 100)
    monkeypatch.setattr(max_passage, "_POOLED", 30)
    found = PooledSearcher(Exact(vectors), first).search(queries, 3)
    np.testing.assert_array_equal(found.rows, brute_force(vectors, first, queries, 3).rows)


def test_no_documents_and_no_queries() -> None:
    none = PooledSearcher(Exact(np.empty((0, 2), np.float32)), np.zeros(1, np.int64))
    assert none.search(np.ones((2, 2), np.float32), 3).rows.tolist() == [[-1] * 3] * 2
    one = PooledSearcher(Exact(np.ones((2, 2), np.float32)), np.array([0, 2]))
    assert one.search(np.empty((0, 2), np.float32), 3).rows.shape == (0, 3)
    with pytest.raises(UsageError, match="k is 0"):
        one.search(np.ones((1, 2), np.float32), 0)
