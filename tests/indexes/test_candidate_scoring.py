"""Some documents a query, ranked by their vectors."""

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hardneg.indexes import candidate_scoring as max_passage
from hardneg.indexes.candidate_scoring import PooledSearcher, angular_scores, first_of_each, rank_candidates
from hardneg.indexes.checks import vector_blocks
from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.indexes.exact_ranks import best_rank, overlap
from hardneg.records import Hits, UsageError


class Vectors:
    """A dense index in memory."""

    def __init__(self, rows: list[list[float]] | np.ndarray) -> None:
        self.rows = np.array(rows, np.float32)

    def search(self, queries: np.ndarray, k: int) -> Hits:
        raise AssertionError("candidates are not searched for")

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        return self.rows[rows]


INDEX = Vectors([[1, 0], [0, 1], [2, 2], [3, -1], [0, 1]])
QUERIES = np.array([[1, 1], [0, 2]], np.float32)


def test_a_document_of_several_vectors_counts_by_its_best() -> None:
    pooled = PooledSearcher(INDEX, np.array([0, 2, 3, 5]))
    hits = rank_candidates(pooled, QUERIES, np.array([[0, 2, -1], [2, 0, 1]]), 3)
    assert hits.rows.tolist() == [[2, 0, -1], [1, 0, 2]]
    assert hits.scores.tolist() == [[2, 1, -np.inf], [4, 2, 2]]


def test_what_cannot_be_scored_is_refused() -> None:
    class Texts:
        search = Vectors.search

    candidates = np.array([[0], [1]])
    with pytest.raises(UsageError, match="use a dense index"):
        rank_candidates(Texts(), QUERIES, candidates, 1)
    with pytest.raises(UsageError, match="not texts"):
        rank_candidates(INDEX, ["one", "two"], candidates, 1)
    with pytest.raises(UsageError, match="must have shape"):
        rank_candidates(INDEX, QUERIES[:, :1], candidates, 1)


@settings(max_examples=40)
@given(seed=st.integers(0, 999), at_once=st.integers(1, 40), k=st.integers(1, 12))
def test_blocks_have_no_effect(seed: int, at_once: int, k: int) -> None:
    draws = np.random.default_rng(seed)
    index = Vectors(draws.integers(-2, 3, (20, 3)))
    queries = draws.integers(-2, 3, (5, 3)).astype(np.float32)
    candidates = np.stack([draws.permutation(20)[:9] for _ in queries])
    candidates[draws.random(candidates.shape) < 0.3] = -1
    hits = rank_candidates(index, queries, candidates, k, at_once)
    assert hits.rows.shape == (5, k) and (hits.rows.dtype, hits.scores.dtype) == (np.int64, np.float32)
    for query, listed, rows, scores in zip(queries, candidates, hits.rows, hits.scores, strict=True):
        ranked = sorted((-float(query @ index.rows[row]), row) for row in listed.tolist() if row >= 0)[:k]
        assert rows.tolist() == [row for _, row in ranked] + [-1] * (k - len(ranked))
        assert scores[: len(ranked)].tolist() == [-score for score, _ in ranked]


def test_angles():
    """At 0, 45, 60, 90 and 180 degrees; a rounding beyond 1 is 1."""
    cosines = np.array([1, np.sqrt(0.5), 0.5, 0, -1, 1 + 1e-6], np.float32)
    np.testing.assert_allclose(angular_scores(cosines), [1, 0.75, 2 / 3, 0.5, 0, 1], atol=1e-6)
    assert angular_scores(cosines).dtype == np.float32


@given(st.lists(st.floats(-1, 1, width=32), max_size=30))
def test_the_order_is_that_of_the_cosines(cosines: list[float]):
    ordered = np.sort(np.array(cosines, np.float32))
    assert (np.diff(angular_scores(ordered)) >= 0).all()


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


def test_the_overlap_is_the_share_of_the_fixed_negatives_among_the_top():
    static = np.array([[1, 2, 3, 4], [1, 2, -1, -1], [0, 5, 6, 7], [0, 5, 6, 7]])
    top = np.array([[4, 9, 1], [2, 1, 8], [1, 2, -1], [7, 0, 6]])
    assert overlap(static, top).tolist() == [0.5, 1.0, 0.0, 0.75]


def test_padding_never_overlaps_and_a_query_without_negatives_has_no_share():
    found = overlap(np.array([[-1, -1], [3, -1]]), np.array([[-1, -1], [-1, -1]]))
    assert np.isnan(found[0])
    assert found[1] == 0


def test_the_best_rank_counts_all_that_is_above_the_best_fixed_negative():
    corpus = np.array([[5], [1], [4], [3], [2]], np.float32)
    queries = np.array([[1], [-1], [1]], np.float32)
    static = np.array([[1, 3], [0, 2], [-1, -1]])
    # rising: 5 4 3 2 1, so value 3 is third; falling: 1 2 3 4 5, so value 4 is fourth
    assert best_rank(partial(vector_blocks, corpus, 2), queries, static).tolist() == [3, 4, 0]


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_the_best_rank_is_that_of_a_sorted_list(seed, block):
    draw = np.random.default_rng(seed)
    corpus = draw.integers(-2, 3, (12, 3)).astype(np.float32)
    queries = draw.integers(-2, 3, (4, 3)).astype(np.float32)
    static = np.stack([draw.choice(12, 3, replace=False) for _ in queries])
    orders = np.argsort(-(queries @ corpus.T), axis=1, kind="stable")
    expected = [
        1 + min(order.tolist().index(row) for row in rows) for order, rows in zip(orders, static.tolist(), strict=True)
    ]
    assert best_rank(partial(vector_blocks, corpus, block), queries, static).tolist() == expected
