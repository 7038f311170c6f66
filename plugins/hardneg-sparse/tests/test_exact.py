"""Tests of the exact index of term weights, and contract tests of the encoder family and the indexes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hardneg_sparse import exact
from hardneg_sparse.exact import Sparse, SparseSearcher
from hardneg_sparse.family import Splade
from hardneg_sparse.impact import Impact
from hardneg_sparse.store import SparseRows, SparseStore
from hardneg_sparse.testing import WeightEncoderTests, WeightIndexTests
from hypothesis import given, settings, strategies as st
from sparse_lists import rows_of, write
from tiny import tiny_encoder, tiny_sparse_encoder

from hardneg.encoders.spec import ModelSpec
from hardneg.indexes.candidate_scoring import score_matrix, score_pairs
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.records import Hits, ModelError, PluginSetting, UsageError
from hardneg.runtime import Silent
from tests.encoders import test_pinned_models as pinned

_DOCUMENTS: list[dict[int, float]] = [{0: 2.0, 1: 1.0}, {}, {2: 4.0}, {0: 1.0, 2: 1.0, 4: 0.5}, {1: 3.0}]


def _dense(rows: SparseRows) -> np.ndarray:
    dense = np.zeros((len(rows), rows.width), np.float32)
    dense[np.repeat(np.arange(len(rows)), np.diff(rows.offsets)), rows.terms] = rows.weights
    return dense


def _brute_force(queries: SparseRows, documents: SparseRows, k: int) -> Hits:
    """Search by a full sort; documents with a score of 0 or less are not hits."""
    scores = np.pad(_dense(queries) @ _dense(documents).T, ((0, 0), (0, k)))
    rows = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores))[:, :k]
    scores = np.take_along_axis(scores, rows, 1)
    return Hits(np.where(scores > 0, rows, -1), np.where(scores > 0, scores, -np.inf).astype(np.float32))


def test_scores_are_sums_over_the_terms_that_both_have(tmp_path):
    searcher = open_store(write(tmp_path, _DOCUMENTS), ExactOptions())
    assert isinstance(searcher, SparseSearcher)
    queries = rows_of([{0: 3.0, 2: 0.5}, {1: 1.0}, {}, {3: 9.0}])
    hits = searcher.search(queries, 4)
    assert hits.rows.tolist() == [[0, 3, 2, -1], [4, 0, -1, -1], [-1] * 4, [-1] * 4]
    assert hits.scores[:2].tolist() == [[6.0, 3.5, 2.0, -np.inf], [3.0, 1.0, -np.inf, -np.inf]]
    matrix = [[6, 0, 2, 3.5, 0], [1, 0, 0, 0, 3], [0] * 5, [0] * 5]
    assert score_matrix(queries, rows_of(_DOCUMENTS)).tolist() == matrix
    assert score_pairs(queries, rows_of(_DOCUMENTS[:4])).tolist() == [6, 0, 0, 0]


def test_queries_of_another_kind_are_refused(tmp_path):
    searcher = open_store(write(tmp_path, _DOCUMENTS))
    for queries in (["text"], np.ones((1, 5), np.float32)):
        with pytest.raises(UsageError, match="term weights"):
            searcher.search(queries, 2)
    with pytest.raises(UsageError, match="6 terms instead of 5"):
        searcher.search(rows_of([{0: 1.0}], 6), 2)
    with pytest.raises(UsageError, match="k is 0"):
        searcher.search(rows_of([{0: 1.0}]), 0)
    unsound = SparseRows(np.array([0, 1]), np.array([0], np.int32), np.full(1, np.nan, np.float32), 5)
    with pytest.raises(UsageError, match=r"text 0 .*not finite"):
        searcher.search(unsound, 1)
    with pytest.raises(UsageError, match="6 terms instead of 5"):
        score_pairs(rows_of([{0: 1.0}], 6), rows_of([{0: 1.0}]))
    with pytest.raises(UsageError, match="different forms"):
        score_matrix(rows_of([{0: 1.0}]), np.ones((1, 5), np.float32))


def test_the_folder_of_weights_is_the_index(tmp_path):
    source = write(tmp_path / "source", _DOCUMENTS)
    (source / "terms.txt").write_text("a\nb\nc\nd\ne\n")
    assert Sparse().build(source, tmp_path / "made", Silent()) == 5
    assert (tmp_path / "made" / "weights.npy").samefile(source / "weights.npy")
    store = SparseStore.open(tmp_path / "made")
    assert (list(store.doc_ids), store.terms) == (["d0", "d1", "d2", "d3", "d4"], ["a", "b", "c", "d", "e"])


def _texts(count: int) -> st.SearchStrategy[list[dict[int, float]]]:
    """Sample texts with few different weights, so that scores tie and sums are exact in any order."""
    return st.lists(st.dictionaries(st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0, -1.0])), max_size=count)


@settings(max_examples=15)
@given(documents=_texts(20), queries=_texts(6), k=st.integers(1, 8), rows=st.integers(1, 7), weights=st.integers(1, 20))
def test_it_finds_what_a_full_sort_finds(tmp_path_factory, documents, queries, k, rows, weights):
    store = SparseStore.open(write(tmp_path_factory.mktemp("store"), documents, 4, 6))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exact, "_ROWS", rows)
        patched.setattr(exact, "_WEIGHTS", weights)
        patched.setattr(exact, "_QUERIES", 4)
        hits = SparseSearcher(store).search(rows_of(queries, 6), k)
    expected = _brute_force(rows_of(queries, 6), rows_of(documents, 6), k)
    assert hits.rows.tolist() == expected.rows.tolist()
    assert hits.scores.tolist() == expected.scores.tolist()


def test_blocks_hold_no_more_than_they_may(tmp_path):
    store = SparseStore.open(write(tmp_path, [{0: 1.0}, {}, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}, {1: 1.0}, {1: 1.0}, {}]))
    blocks = [(start, len(block), len(block.terms)) for start, block in store.blocks(3, 2)]
    assert blocks == [(0, 2, 1), (2, 1, 4), (3, 3, 2)]
    assert [start for start, _ in store.blocks(2, 100)] == [0, 2, 4]


class Weights(WeightEncoderTests):
    """Encoder tests. written: creates the folder, once per class. options: the family's, if not in the folder."""

    own_share = 0.1  # inner products: a text of more terms is nearer
    written: ClassVar[Callable[[Path], Path]] = staticmethod(tiny_sparse_encoder)
    options: ClassVar[dict[str, Any] | None] = None
    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _written(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = cls.written(tmp_path_factory.mktemp("kind") / "model")

    def model(self, folder: Path) -> ModelSpec:
        named = None if self.options is None else PluginSetting("sparse", self.options)
        return ModelSpec(str(self.folder), encoder=named)


class TestSparseEncoder(Weights):
    plugin = Splade()

    def others(self, folder: Path) -> Sequence[Any]:
        return [Splade(pooling="sum"), Splade(activation="log1p_relu"), Splade(max_terms=3)]


class TestOfTransformer(Weights):
    plugin = Splade()
    written = staticmethod(tiny_encoder)
    options: ClassVar[dict[str, Any] | None] = {}


class TestOfQueryTerms(Weights):
    plugin = Splade(queries="terms")
    options: ClassVar[dict[str, Any] | None] = {"queries": "terms"}


class TestExactIndex(WeightIndexTests):
    plugin = Sparse()


@pytest.mark.slow
@pytest.mark.usefixtures("started_java")
class TestImpactIndex(WeightIndexTests):
    """Weights are whole numbers, so none is rounded; ties at the end of a list may be in another order."""

    plugin = Impact(scale=1)
    exact = False
    recall = 1.0


def test_options_that_a_folder_declares_wrongly(tmp_path: Path) -> None:
    from hardneg.encoders.open.resolved import load_learner

    folder = tiny_encoder(tmp_path / "model")
    pinned.edited(folder, pinned.ST, model_type="SparseEncoder")
    with pytest.raises(ModelError, match="only SpladePooling is supported"):
        load_learner(ModelSpec(str(folder)), "cpu")
