"""Numbers of candidates."""

import numpy as np
import pytest
from hardneg_papers.analyses.runs import CandidateCounts, prefix
from hypothesis import given, settings, strategies as st

from hardneg.records import DataError, RankedList
from tests.analysis.in_memory import Memory
from tests.run_lists import doc_lists


def run(**lists):
    scores = [np.arange(len(ids), 0, -1, np.float32) for ids in lists.values()]
    return {q: RankedList(list(lists[q]), each) for q, each in zip(lists, scores, strict=True)}


QRELS = {"q": {"a": 2, "d": 3, "c": 1}, "r": {"x": 2}}


def counted(first, reranked, level=1, **options):
    asked = CandidateCounts(first={"BM25": "first"}, reranked={"BM25": "reranked"}, **options)
    return asked, asked.measure(Memory(asked, {"first": first, "reranked": reranked}, QRELS, relevance_level=level))


def test_candidates_by_hand():
    pair = (run(q="abcd", r="yx"), run(q="dcab", r="xy"))
    asked, found = counted(*pair, level=2, counts=(1, 2, 4), metric="mrr@10")
    rows = found["runs"]["BM25"]
    assert [row["quality"] for row in rows] == [0.5, 1.0, 1.0]
    assert [row["recall"] for row in rows] == [0.25, 0.75, 1.0]
    assert [row["documents"] for row in rows] == [1.0, 2.0, 3.0]
    table = asked.table(found)
    assert table.columns == ("candidates", "BM25: mrr@10", "BM25: recall")
    assert table.rows[1] == ["2", "1.0000", "0.7500"]


def test_a_candidate_without_a_score_is_told():
    with pytest.raises(DataError, match="lacks 1 of the first 3 candidates of query q, such as c; rerank deeper"):
        counted(run(q="abcd"), run(q="ab"), counts=(2, 3))
    assert counted(run(q="abcd"), run(q="ba"), counts=(2,))


def test_what_was_reranked_besides_is_no_candidate():
    first, reranked = run(q="ab"), run(q="zba")
    assert doc_lists(prefix(first, reranked, 1000)) == [["b", "a"]]


@settings(max_examples=50)
@given(st.permutations("abcdefgh"), st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 99)), st.integers(1, 9))
def test_a_cut_is_what_reranking_so_many_would_give(order, known, count):
    scores = {doc_id: known.get(doc_id, 0) + ord(doc_id) / 1024 for doc_id in order}

    def rerank(doc_ids):
        return sorted(doc_ids, key=scores.__getitem__, reverse=True)

    first, whole = run(q=order), run(q=rerank(order))
    assert doc_lists(prefix(first, whole, count)) == [rerank(order[:count])]
