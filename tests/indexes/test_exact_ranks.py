from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardneg.indexes.exact_ranks import best_rank, overlap
from hardneg.indexes.kernels.checks import vector_blocks


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


def test_of_equal_scores_the_lower_row_is_above():
    corpus = np.ones((6, 1), np.float32)
    found = best_rank(partial(vector_blocks, corpus, 2), np.ones((2, 1), np.float32), np.array([[5, 3], [0, 1]]))
    assert found.tolist() == [4, 1]


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
