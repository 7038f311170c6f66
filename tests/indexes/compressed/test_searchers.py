"""What searchers of compressed indexes say: scores, vectors, codes and centroids."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from indexes.compressed.kinds import COUNT, DIMENSION, KINDS, drawn_vectors, flat_index, kind_name

from hardneg.indexes.backends import product
from hardneg.indexes.backends.compressed import Fp16
from hardneg.indexes.backends.flat import Flat
from hardneg.indexes.backends.product import Binary
from hardneg.indexes.open_store import DenseIndex
from hardneg.protocols import DenseSearcher, ProductSearcher
from hardneg.records import UsageError
from hardneg.runtime import Silent
from hardneg.store import tree_digest

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize("plugin", KINDS, ids=kind_name)
def test_scores_are_products_with_the_vectors_that_it_gives(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "made", Silent())
    searcher = plugin.open(tmp_path / "made")
    assert isinstance(searcher, DenseSearcher) and type(DenseIndex.open(tmp_path / "made").searcher) is type(searcher)
    queries = np.random.default_rng(8).standard_normal((300, DIMENSION)).astype(np.float32)
    hits = searcher.search(queries, 20)
    found = hits.rows >= 0
    vectors = searcher.vectors(np.maximum(hits.rows, 0).ravel()).reshape(300, 20, DIMENSION)
    products = np.einsum("qd,qkd->qk", queries, vectors)
    assert found.mean() > 0.95
    np.testing.assert_allclose(products[found], hits.scores[found], atol=1e-4)


def test_codes_centroids_and_rotation_make_up_the_vectors(source: Path, tmp_path: Path) -> None:
    rows = np.array([5, 0, 299, 5])
    for plugin in KINDS[:3]:
        path = tmp_path / kind_name(plugin)
        plugin.build(source, path, Silent())
        searcher = plugin.open(path)
        assert isinstance(searcher, ProductSearcher)
        codes, centroids, rotation = searcher.codes(rows), searcher.centroids(), searcher.rotation()
        assert (codes.shape, codes.dtype) == ((4, 4), np.uint8)
        assert centroids.shape == (4, 2**plugin.bits, 4)
        joined = centroids[np.arange(4), codes].reshape(4, DIMENSION)
        vectors = joined if rotation is None else joined @ rotation
        np.testing.assert_allclose(vectors, searcher.vectors(rows), atol=1e-5)
        assert (rotation is None) == (plugin.name == "pq")


@pytest.mark.parametrize("plugin", KINDS[:3], ids=kind_name)
def test_other_centroids_with_the_same_codes(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "made", Silent())
    searcher = plugin.open(tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "same", searcher.centroids())
    assert tree_digest(tmp_path / "same") == tree_digest(tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "doubled", searcher.centroids() * 2)
    doubled, rows = plugin.open(tmp_path / "doubled"), np.arange(COUNT)
    np.testing.assert_allclose(doubled.vectors(rows), searcher.vectors(rows) * 2, atol=1e-5)
    assert np.array_equal(doubled.codes(rows), searcher.codes(rows))
    hits = doubled.search(drawn_vectors()[:3], 5)
    np.testing.assert_allclose(hits.scores, 2 * searcher.search(drawn_vectors()[:3], 5).scores, rtol=1e-5)
    for wrong in (searcher.centroids()[:, :1], searcher.centroids() * np.inf):
        with pytest.raises(UsageError, match=r"centroids have shape"):
            searcher.write_with_centroids(tmp_path / "wrong", wrong)


def test_ties_go_to_the_first_rows_however_many(tmp_path: Path) -> None:
    vectors = np.tile(np.array([[1.0, 0], [3, 0], [2, 1]], np.float32), (40, 1))
    Fp16().build(flat_index(tmp_path / "flat", vectors), tmp_path / "made", Silent())
    searcher, queries = Fp16().open(tmp_path / "made"), np.array([[1.0, 0], [0, 1]], np.float32)
    for k in (1, 3, 39, 41, 80, 120, 130):
        found, exact = searcher.search(queries, k), Flat().open(tmp_path / "flat").search(queries, k)
        assert np.array_equal(found.rows, exact.rows), k
        assert np.array_equal(found.scores, exact.scores), k


SIGNS = np.array([[3, -1, 2, -1, 1, 1, -1, 1], [1, 1, 1, 1, 1, 1, 1, 1], [-1, 2, -3, 1, -1, -1, 1, 0]], np.float32)


def test_a_score_of_bits_is_the_query_times_the_signs(tmp_path: Path) -> None:
    Binary().build(flat_index(tmp_path / "flat", SIGNS), tmp_path / "bits", Silent())
    searcher = Binary().open(tmp_path / "bits")
    query = np.array([[1, 0.5, 0, 0, 0, 0, 0, -2]], np.float32)
    hits = searcher.search(query, 3)  # products with signs, by hand: 1 - .5 - 2, 1 + .5 - 2 and -1 + .5 + 2; 0 is below
    assert hits.rows.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(hits.scores, np.array([[1.5, -0.5, -1.5]]) / np.sqrt(8), rtol=1e-6)
    np.testing.assert_allclose(searcher.vectors(np.array([2])) * np.sqrt(8), [[-1, 1, -1, 1, -1, -1, 1, -1]], rtol=1e-6)


def test_of_bits_the_nearest_are_rescored_and_of_equal_ones_the_first(tmp_path: Path, monkeypatch: Any) -> None:
    vectors = np.repeat(SIGNS, 4, axis=0)
    Binary().build(flat_index(tmp_path / "flat", vectors), tmp_path / "bits", Silent())
    monkeypatch.setattr(product, "LEAST_RESCORED", 0)
    monkeypatch.setattr(product, "RESCORED", 2)
    searcher = DenseIndex.open(tmp_path / "bits").searcher
    query = np.array([[1, 0.1, 1, 0.1, 0.1, 0.1, 0.1, -9]], np.float32)  # nearest by bits: row 4; by score: row 8
    assert searcher.search(query, 3).rows.tolist() == [[4, 5, 6]]
    assert searcher.search(query, 6).rows.tolist() == [[8, 9, 10, 11, 4, 5]]
