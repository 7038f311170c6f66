"""Tests of the impact index; they share the one Java machine that a process may start."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hardneg_sparse import impact as lucene_frequencies
from hardneg_sparse.impact import Impact, ImpactSearcher
from hardneg_sparse.store import SparseRows, SparseWriter
from noted import Notes
from numpy.typing import NDArray
from sparse_lists import rows_of, write

from hardneg.indexes import lucene
from hardneg.indexes.open_store import open_store
from hardneg.records import ArtifactError, UsageError
from hardneg.runtime import Silent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("started_java")]

DOCUMENTS: list[dict[int, float]] = [{0: 2.0, 1: 1.0}, {}, {2: 4.0}, {0: 1.0, 2: 1.0, 4: 0.5}, {1: 3.0}, {3: 0.001}]
WORDS = ["the", "|", " ", "😀", "##s é"]
QUERIES: list[dict[int, float]] = [{0: 3.0, 2: 0.5}, {1: 1.0}, {}, {3: 9.0}, {4: 0.3, 1: 0.001}]


def rows(doc_ids: Sequence[str]) -> NDArray[np.int64]:
    return np.array([int(doc_id[1:]) for doc_id in doc_ids], dtype=np.int64)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights") / "store"
    SparseWriter(folder, 5, len(DOCUMENTS)).write_terms(WORDS)
    return write(folder, DOCUMENTS)


@pytest.fixture(scope="module")
def searcher(store: Path, tmp_path_factory: pytest.TempPathFactory) -> ImpactSearcher:
    folder = tmp_path_factory.mktemp("lucene") / "index"
    assert Impact().build(store, folder, Silent()) == len(DOCUMENTS)
    return Impact().open(folder, rows)


def test_what_is_left_out_is_told(store: Path, tmp_path: Path) -> None:
    notes = Notes()
    assert Impact().build(store, tmp_path, notes) == len(DOCUMENTS)
    assert notes.lines == ["impact: 1 of 8 weights round to 0 with scale 100"]


def test_scores_are_products_of_rounded_weights(searcher: ImpactSearcher) -> None:
    hits = searcher.search(rows_of(QUERIES), 4)
    expected = [[0, 3, 2, -1], [4, 0, -1, -1], [-1] * 4, [-1] * 4, [3, -1, -1, -1]]
    assert hits.rows.tolist() == expected
    assert hits.scores[hits.rows >= 0].tolist() == pytest.approx([6.0, 3.5, 2.0, 3.0, 1.0, 0.15])
    assert (np.isneginf(hits.scores) == (hits.rows < 0)).all()


def test_lists_do_not_depend_on_batches(searcher: ImpactSearcher, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searcher.search(rows_of(QUERIES), 3)
    monkeypatch.setattr(lucene, "HELD", 1)
    monkeypatch.setattr(lucene, "threads", lambda: 1)
    single = searcher.search(rows_of(QUERIES), 3)
    assert np.array_equal(whole.rows, single.rows) and np.array_equal(whole.scores, single.scores)


def test_queries_of_another_kind_are_refused(searcher: ImpactSearcher) -> None:
    with pytest.raises(UsageError, match="term weights"):
        searcher.search(["text"], 2)
    with pytest.raises(UsageError, match="queries: weights are below 0"):
        searcher.search(rows_of([{0: -1.0}]), 2)


def test_a_term_that_lucene_could_not_tell_apart_is_refused(tmp_path: Path) -> None:
    SparseWriter(tmp_path / "store", 5, len(DOCUMENTS)).write_terms(["a", "b\ue001", "c", "d", "e"])
    with pytest.raises(UsageError, match=r"'b\\ue001' cannot be stored in a Lucene index"):
        Impact().build(write(tmp_path / "store", DOCUMENTS), tmp_path / "index", Silent())


def test_a_folder_without_an_index(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read as a Lucene index"):
        Impact().open(tmp_path / "none", rows)
    Impact().build(store, tmp_path / "made", Silent())
    (tmp_path / "made" / "terms.txt").unlink()
    with pytest.raises(ArtifactError, match=r"terms.txt"):
        Impact().open(tmp_path / "made", rows)
    for text in ("d0\nd1\n", None):
        (tmp_path / "made" / "docid").unlink()
        if text:
            (tmp_path / "made" / "docid").write_text(text)
        with pytest.raises(ArtifactError, match="docid: does not have one id per document"):
            Impact().open(tmp_path / "made")


def test_an_empty_store(tmp_path: Path) -> None:
    write(tmp_path / "store", [])
    assert Impact().build(tmp_path / "store", tmp_path / "index", Silent()) == 0
    assert Impact().open(tmp_path / "index", rows).search(rows_of(QUERIES), 2).rows.tolist() == [[-1, -1]] * 5


def _drawn(count: int, terms: int, seed: int) -> SparseRows:
    """Sample weights with two decimals, which the index stores without rounding, so that scores are exact."""
    draws = np.random.default_rng(seed)
    lists = [
        {int(term): float(draws.integers(1, 300)) / 100 for term in draws.zipf(1.3, terms) if term < 200}
        for _ in range(count)
    ]
    return rows_of(lists, 200)


def test_rows_keep_their_order_through_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lucene_frequencies, "_BUFFER", 0.05)
    with SparseWriter(tmp_path / "store", 200, 800) as writer:
        writer.write(_drawn(800, 10, 3))
        writer.write_doc_ids(f"d{row}" for row in range(800))
        writer.close()
    Impact().build(tmp_path / "store", tmp_path / "index", Silent())
    searcher = Impact().open(tmp_path / "index")
    generations = [int(path.stem[1:], 36) for path in (tmp_path / "index").glob("*.si")]
    assert max(generations) > len(generations) > 1  # some were merged
    hits = searcher.search(_drawn(20, 8, 4), 200)
    exact = open_store(tmp_path / "store").search(_drawn(20, 8, 4), 200)
    np.testing.assert_allclose(hits.scores, exact.scores, atol=1e-4)
    distinct = np.diff(exact.scores, axis=1, append=np.nan, prepend=np.inf)
    alone = (np.abs(distinct[:, 1:]) > 1e-3) & (np.abs(distinct[:, :-1]) > 1e-3) & (exact.rows >= 0)
    assert alone.sum() > 300 and np.array_equal(hits.rows[alone], exact.rows[alone])


def test_pyserini_finds_what_exact_search_finds(tmp_path: Path) -> None:
    documents, queries = _drawn(500, 30, 1), _drawn(40, 8, 2)
    words = [f"##{number}" for number in range(200)]
    with SparseWriter(tmp_path / "store", 200, 500) as writer:
        writer.write(documents)
        writer.write_doc_ids(f"d{row}" for row in range(500))
        writer.write_terms(words)
        writer.close()
    Impact().build(tmp_path / "store", tmp_path / "index", Silent())
    from pyserini.search.lucene import LuceneImpactSearcher

    class Encoder:
        def encode(self, text: str) -> dict[str, int]:
            query = queries[int(text) : int(text) + 1]
            return {words[term]: round(weight * 100) for term, weight in zip(query.terms, query.weights, strict=True)}

    pyserini = LuceneImpactSearcher(str(tmp_path / "index"), Encoder(), min_idf=-1)
    exact = open_store(tmp_path / "store").search(queries, 50)
    ours = Impact().open(tmp_path / "index", rows).search(queries, 50)
    np.testing.assert_allclose(ours.scores, exact.scores, atol=1e-4)
    assert int((exact.rows >= 0).sum()) > 1000
    for place in range(len(queries)):
        hits = pyserini.search(str(place), 50)
        found = exact.rows[place] >= 0
        np.testing.assert_allclose([hit.score / 1e4 for hit in hits], exact.scores[place][found], rtol=1e-6)
        certain = exact.scores[place] > exact.scores[place][found][-1] + 1e-4  # equal ones at the end may change places
        assert set(exact.rows[place][certain]) <= set(rows([hit.docid for hit in hits])) & set(ours.rows[place])
