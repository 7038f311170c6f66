"""Some documents a query, ranked by their vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.indexes.kernels.candidate_scoring import PooledSearcher, angular_scores, rank_candidates
from hardneg.records.errors import UsageError
from hardneg.records.types import Hits


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


def test_the_order_is_that_of_inner_products_and_of_rows_among_equals() -> None:
    candidates = np.array([[4, 3, 1, 0], [3, 4, 1, -1]])
    hits = rank_candidates(INDEX, QUERIES, candidates, 4)
    assert hits.rows.tolist() == [[3, 0, 1, 4], [1, 4, 3, -1]]
    assert hits.scores.tolist() == [[2, 1, 1, 1], [2, 2, -2, -np.inf]]
    assert hits.rows.dtype == np.int64 and hits.scores.dtype == np.float32


def test_the_best_k_are_kept_and_what_is_missing_is_padded() -> None:
    candidates = np.array([[4, 3, 1, 0], [-1, -1, -1, -1]])
    assert rank_candidates(INDEX, QUERIES, candidates, 2).rows.tolist() == [[3, 0], [-1, -1]]
    assert rank_candidates(INDEX, QUERIES, candidates, 6).rows.tolist() == [[3, 0, 1, 4, -1, -1], [-1] * 6]
    assert rank_candidates(INDEX, QUERIES, np.empty((2, 0), np.int64), 1).rows.tolist() == [[-1], [-1]]
    assert rank_candidates(INDEX, QUERIES[:0], candidates[:0], 3).rows.shape == (0, 3)


def test_a_document_of_several_vectors_counts_by_its_best() -> None:
    pooled = PooledSearcher(INDEX, np.array([0, 2, 3, 5]))
    hits = rank_candidates(pooled, QUERIES, np.array([[0, 2, -1], [2, 0, 1]]), 3)
    assert hits.rows.tolist() == [[2, 0, -1], [1, 0, 2]]
    assert hits.scores.tolist() == [[2, 1, -np.inf], [4, 2, 2]]


def test_what_cannot_be_scored_is_refused() -> None:
    class Texts:
        search = Vectors.search

    candidates = np.array([[0], [1]])
    with pytest.raises(UsageError, match="name a dense index"):
        rank_candidates(Texts(), QUERIES, candidates, 1)
    with pytest.raises(UsageError, match="not texts"):
        rank_candidates(INDEX, ["one", "two"], candidates, 1)
    with pytest.raises(UsageError, match="instead of"):
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
