"""Tests of pairwise errors, computed by hand and by sorting, and of errors and projections on all kinds of indexes."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hardneg_papers.analyses.errors import Errors, distribution, errors_in_index, errors_in_run
from hardneg_papers.analyses.projection import Projection
from hypothesis import given, strategies as st

from hardneg.analysis.base import Files, System
from hardneg.formats.qrels import positives, read_qrels
from hardneg.formats.runs import read_run
from hardneg.indexes.checks import vector_blocks
from hardneg.indexes.compressed import Fp16, Hnsw, Sq8
from hardneg.indexes.exact import Flat
from hardneg.indexes.open_store import DenseIndex
from hardneg.indexes.product import IvfFlat, IvfPq, OpqPq, Pq
from hardneg.runtime import Silent
from hardneg.testing.indexes import write_encoded


def errors(corpus, queries, relevant, copies=None, cut=2, block=2):
    aside = [np.array([], np.int64)] * len(queries) if copies is None else copies
    own = [np.array(rows, np.int64) for rows in relevant]
    return errors_in_index(partial(vector_blocks, corpus, block), queries, own, aside, cut)


def test_negatives_above_each_positive_are_counted_and_other_positives_are_not():
    corpus = np.array([[6], [5], [4], [3], [2], [1]], np.float32)
    queries = np.array([[1], [-1]], np.float32)
    # first query: rows 1 and 4 stand at 2 and 5, so 1 and 3 negatives above; second: row 0 is last, 5 above
    total, top = errors(corpus, queries, [[1, 4], [0]])
    assert total.tolist() == [1 + 3, 5]
    assert top.tolist() == [1 + 2, 2]


def test_copies_of_positives_are_neither_positives_nor_negatives():
    corpus = np.array([[3], [3], [3], [1]], np.float32)
    queries = np.ones((1, 1), np.float32)
    assert errors(corpus, queries, [[2]])[0].tolist() == [2]  # ties by ascending row: both are above
    assert errors(corpus, queries, [[2]], [np.array([0, 2])])[0].tolist() == [1]
    assert errors(corpus, queries, [[3]], [np.array([3])])[0].tolist() == [3]


@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 6))
def test_block_by_block_is_the_same_as_sorting_the_whole_corpus(seed, block, cut):
    draw = np.random.default_rng(seed)
    corpus = draw.integers(-2, 3, (15, 3)).astype(np.float32)
    queries = draw.integers(-2, 3, (5, 3)).astype(np.float32)
    positives = [draw.choice(15, draw.integers(0, 4), replace=False) for _ in queries]
    copies = [draw.choice(15, draw.integers(0, 3), replace=False) for _ in queries]
    found = errors(corpus, queries, positives, copies, cut, block)
    for query, own, others, total, top in zip(queries, positives, copies, *found, strict=True):
        order = np.argsort(-(corpus @ query), kind="stable").tolist()
        negatives = [row for row in order if row not in own and row not in others]
        above = [sum(order.index(row) < order.index(positive) for row in negatives) for positive in own]
        assert total == sum(above)
        assert top == sum(min(count, cut) for count in above)


def test_equal_vectors_far_apart_keep_their_order_to_the_last_bit():
    draw = np.random.default_rng(0)
    corpus = draw.standard_normal((4130, 100), np.float32)
    copies = np.array([7, 900, 4099, 4129])
    corpus[copies] = corpus[copies[0]]
    queries = draw.standard_normal((40, 100), np.float32)
    found = [errors(corpus, queries, [[row]] * 40, block=4096)[0] for row in copies]
    assert [(later - found[0]).tolist() for later in found] == [[place] * 40 for place in range(4)]


def test_from_a_run_only_the_errors_in_its_lists_are_known():
    lists = [("a", ["n1", "p1", "n2", "c", "p2", "n3"]), ("b", ["n1"]), ("x", ["n1"])]
    positives = {"a": ["p1", "p2", "p3"], "b": ["p1"], "gone": ["p1"]}
    found = errors_in_run(lists, positives, cut=2, copies={"a": ["c"]})
    assert {name: row["top"] for name, row in found["per_query"].items()} == {"a": 1 + 2 + 2, "b": 1}
    assert found["per_query"]["a"] == {"positives": 3, "total": None, "top": 5} and found["total_errors"] is None
    assert (found["top_errors"], found["queries"]) == (3.0, 2)
    assert found["at_least"] == 1  # the list of b is shorter than the cut
    assert errors_in_run([("b", ["n1"])], {"b": ["p1", "p2"]}, cut=2)["at_least"] == 2
    assert found["left_out"] == {"queries without positives": 1, "queries that the run lacks": 1}


def test_the_distribution_goes_by_decades():
    found = distribution([0, 0, 1, 9, 10, 100])
    assert [(bucket["low"], bucket["high"]) for bucket in found] == [(0, 0), (1, 9), (10, 99), (100, 999)]
    assert [round(bucket["queries"] * 6) for bucket in found] == [2, 2, 1, 1]
    assert [round(bucket["errors"] * 120) for bucket in found] == [0, 10, 10, 100]
    assert distribution([0, 0]) == [{"low": 0, "high": 0, "queries": 1.0, "errors": 0.0}]
    assert distribution([]) == []
    assert [(bucket["queries"], bucket["errors"]) for bucket in distribution([0, 1])] == [(0.5, 0.0), (0.5, 1.0)]


def test_a_published_run_counted_with_awk_gives_the_same(test_data):
    folder = test_data / "msmarco-dl1920"
    run = read_run(folder / "runs" / "bm25.dl20.trec.gz")
    known = positives(read_qrels(folder / "qrels" / "test.tsv"), level=2)
    found = errors_in_run(((q, ranked.doc_ids) for q, ranked in run.items()), known, cut=50)
    assert (found["queries"], round(found["top_errors"], 3)) == (54, 669.852)


pytest.importorskip("faiss")

BACKENDS = [
    Flat(),
    Fp16(),
    Sq8(),
    Pq(subvectors=4, bits=4),
    OpqPq(subvectors=4, bits=4, iterations=2),
    IvfPq(subvectors=4, bits=4, lists=4, nprobe=1),
    IvfFlat(lists=4, nprobe=1),
    Hnsw(m=4),
]
VECTORS = np.random.default_rng(3).standard_normal((60, 8)).astype(np.float32)


class Opened(Files):
    """An opened index; a query is encoded as the document whose number is its text."""

    def system(self, index: str, model: str) -> System:
        opened = DenseIndex.open(Path(self.named[index]))
        ids = [*opened.doc_ids]

        def rows(wanted: Sequence[str]) -> np.ndarray:
            return np.array([ids.index(doc_id) if doc_id in ids else -1 for doc_id in wanted], np.int64)

        def encode(texts: Sequence[str]) -> np.ndarray:
            return VECTORS[[int(text) for text in texts]]

        return System(opened.searcher, ids, rows, encode)

    def queries(self, split: str | None) -> dict[str, str]:
        return {"a": "2", "b": "9"}

    def qrels(self) -> dict[str, dict[str, int]]:
        return {"a": {"d1": 1, "d5": 1}, "b": {"d7": 1, "elsewhere": 1}}


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda item: type(item).__name__)
def test_errors_and_projections_are_by_what_the_index_stores(backend: Any, tmp_path: Path) -> None:
    backend.build(write_encoded(tmp_path / "flat", VECTORS), tmp_path / "index", Silent())
    scores = VECTORS[[2, 9]] @ backend.open(tmp_path / "index").vectors(np.arange(60)).T
    ranked = [np.argsort(-line, kind="stable").tolist() for line in scores]
    first, second = sorted(ranked[0].index(row) for row in (1, 5))
    asked = Errors(indexes={"it": str(tmp_path / "index")}, models={"it": "model"}, depth=10)
    opened = Opened({path: name for path, name, _ in asked.references()})
    found = asked.measure(opened)["it"]
    errors = [found["per_query"][query_id]["total"] for query_id in "ab"]
    assert errors == [first + second - 1, ranked[1].index(7)]
    assert found["left_out"] == {"positives that the index lacks": 1}
    both = dict.fromkeys(("it", "again"), str(tmp_path / "index"))
    shown = Projection(indexes=both, query="b", negatives=3)
    (found,) = shown.measure(Opened({path: name for path, name, _ in shown.references()}))
    assert found["documents"]["relevant"] == ["d7"] and len(found["documents"]["negatives"]) == 3
    assert "d7" not in found["documents"]["negatives"]
    assert found["points"]["it"]["scores"]["relevant"] == pytest.approx(scores[1, 7], rel=1e-5)
