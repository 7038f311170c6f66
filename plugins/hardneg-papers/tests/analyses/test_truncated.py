"""Search at several numbers of dimensions: the lists of indexes that hold the first dimensions alone."""

import numpy as np
import pytest
from hardneg_papers.analyses.truncated import search_truncated

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.exact_ranks import corpus_pass
from hardneg.indexes.kernels.exact.exact import search_exact
from hardneg.records.errors import UsageError
from hardneg.testing.forms import write_encoded


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("normalised", [True, False])
def test_lists_are_those_of_shorter_vectors(tmp_path, normalised):
    draws = np.random.default_rng(0)
    vectors, queries = (draws.standard_normal((count, 12)).astype(np.float32) for count in (300, 1030))
    vectors, queries = (unit(vectors), unit(queries)) if normalised else (vectors, queries * 3)
    write_encoded(tmp_path, vectors)
    corpus = corpus_pass(FlatSearcher(FlatVectors.open(tmp_path)), 300)
    found = search_truncated(corpus, queries, [12, 5, 1], 7)
    for dim, hits in found.items():
        documents, asked = vectors[:, :dim], queries[:, :dim]
        if normalised:
            documents, asked = unit(documents), unit(asked)
        expected = search_exact(documents, asked, 7)
        np.testing.assert_allclose(hits.scores, expected.scores, atol=1e-5)
        assert dim == 1 or (hits.rows == expected.rows).mean() > 0.999


def test_no_more_dimensions_than_there_are():
    with pytest.raises(UsageError, match="dims: 9 is more than the 4 dimensions of the vectors: give fewer"):
        search_truncated(list, np.ones((1, 4), np.float32), [4, 9], 3)
