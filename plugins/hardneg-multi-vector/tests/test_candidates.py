"""Candidates by pooled vectors and by tokens, against numbers worked out by hand."""

import numpy as np
import pytest
from hardneg_multi_vector.candidates import best_of_each, by_pooled, by_tokens, pooled_vectors, write_pooled
from hardneg_multi_vector.indexes import MultiVector, MultiVectorTwoStage
from hardneg_multi_vector.store import TokenStore, TokenVectors
from hardneg_multi_vector.testing import write_tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Silent

OPTIONS = ExactOptions(device="cpu")


def tokens(*texts: list[list[float]]) -> TokenVectors:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return TokenVectors(offsets, np.array([row for text in texts for row in text], np.float32).reshape(-1, 2))


DOCUMENTS = tokens([[3, 0], [3, 8]], [[-1, 0]], [], [[0, 1], [0, 3]])


def test_pooled_vectors_by_hand(tmp_path):
    # means: (3, 4), of length 5; (-1, 0); none; (0, 2).
    expected = np.array([[0.6, 0.8], [-1, 0], [0, 0], [0, 1]], np.float32)
    assert np.allclose(pooled_vectors(DOCUMENTS), expected, atol=1e-7)
    write_pooled(TokenStore.open(write_tokens(tmp_path / "tokens", DOCUMENTS)), tmp_path / "pooled", Silent())
    pooled = FlatVectors.open(tmp_path / "pooled")
    assert np.array_equal(pooled.vectors, pooled_vectors(DOCUMENTS))
    # the query's mean is (0, 1): products 0.8, 0, 0, 1
    assert by_pooled(pooled, tokens([[1, 1], [-1, 1]]), 3, OPTIONS).tolist() == [[3, 0, 1]]


def test_candidates_of_tokens_by_hand(tmp_path):
    store = TokenStore.open(write_tokens(tmp_path, DOCUMENTS))
    query = tokens([[1, 0], [0, 1]], [], [[-1, 0]])
    # token (1, 0): products 3 3 -1 0 0, the nearest two are both document 0's: it gains 3 - 3.
    # token (0, 1): products 0 8 0 1 3, the nearest two are document 0 with 8 and document 3 with 3: gains 5 and 0.
    # token (-1, 0): products -3 -3 1 0 0, the nearest two are document 1 with 1 and document 3 with 0: gains 1 and 0.
    assert by_tokens(store, query, 2, 3, OPTIONS).tolist() == [[0, 3, -1], [-1, -1, -1], [1, 3, -1]]
    assert by_tokens(store, query, 2, 1, OPTIONS).tolist() == [[0], [-1], [1]]


def test_the_best_of_each():
    owner, documents = np.array([1, 0, 1, 1]), np.array([7, 5, 2, 9])
    found = best_of_each(owner, documents, np.array([3.0, 1.0, 3.0, 4.0]), (3, 2))
    assert found.tolist() == [[5, -1], [9, 2], [-1, -1]]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=9), st.integers(1, 12), st.integers(0, 3))
def test_with_all_as_candidates_it_is_exact(tmp_path_factory, lengths, k, seed):
    folder, draws = tmp_path_factory.mktemp("index"), np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    vectors = draws.integers(-3, 4, (int(offsets[-1]), 2)).astype(np.float32)
    source = write_tokens(folder / "tokens", TokenVectors(offsets, vectors))
    queries = tokens([[1, 0], [2, -1]], [], [[0, 1]])
    expected = MultiVector().open(source).search(queries, k)
    for plugin in (MultiVectorTwoStage(candidates=9), MultiVectorTwoStage(candidates=9, by="tokens", nearest=36)):
        plugin.build(source, folder / plugin.by, Silent())
        hits = plugin.open(folder / plugin.by).search(queries, k)
        assert np.array_equal(hits.rows, expected.rows)
        assert np.array_equal(hits.scores, expected.scores)


def test_options_are_checked():
    for options in ({"candidates": 0}, {"nearest": -1}):
        with pytest.raises(UsageError, match="must be at least 1"):
            MultiVectorTwoStage(**options)
