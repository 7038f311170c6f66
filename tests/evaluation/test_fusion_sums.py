"""Ranked lists as one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.evaluation.fusion import reciprocal_ranks, weighted_sum
from hardneg.records import RankedList


def ranked(**scores: float) -> RankedList:
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    return RankedList(best_first, np.array([scores[doc_id] for doc_id in best_first], np.float32))


def pairs(found: RankedList) -> list[tuple[str, float]]:
    assert found.scores.dtype == np.float32
    return [(doc_id, round(score, 5)) for doc_id, score in zip(found.doc_ids, found.scores.tolist(), strict=True)]


BM25, DENSE = ranked(a=9.0, b=7.0), ranked(b=70.0, c=65.0)


def test_a_document_that_a_list_lacks_has_its_lowest_score_or_none() -> None:
    assert pairs(weighted_sum([BM25, DENSE], [1, 2])) == [("b", 147.0), ("a", 139.0), ("c", 137.0)]
    assert pairs(weighted_sum([BM25, DENSE], [1, 2], "zero")) == [("b", 147.0), ("c", 130.0), ("a", 9.0)]


def test_an_empty_list_adds_nothing() -> None:
    assert pairs(weighted_sum([BM25, ranked()], [0.5, 1])) == [("a", 4.5), ("b", 3.5)]
    assert pairs(weighted_sum([ranked(), ranked()], [1, 1])) == []


def test_equal_sums_go_by_id() -> None:
    assert weighted_sum([ranked(b=2.0, a=1.0), ranked(a=2.0, b=1.0)], [1, 1]).doc_ids == ["a", "b"]


def test_reciprocal_ranks_by_hand() -> None:
    found = pairs(reciprocal_ranks([BM25, DENSE], [1, 1], 60))
    assert found == [("b", round(1 / 62 + 1 / 61, 5)), ("a", round(1 / 61, 5)), ("c", round(1 / 62, 5))]
    assert reciprocal_ranks([BM25, DENSE], [1, 3], constant=0).doc_ids == ["b", "c", "a"]


LISTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1).map(
    lambda scores: ranked(**{doc_id: value + ord(doc_id) / 1024 for doc_id, value in scores.items()})
)


@pytest.mark.slow
@settings(max_examples=60)
@given(LISTS, LISTS, st.sampled_from([0.25, 1.0, 1.5]))
def test_it_agrees_with_ranx(first: RankedList, second: RankedList, weight: float) -> None:
    from ranx import Run
    from ranx.fusion import rrf, wsum

    runs = [Run({"q": dict(zip(one.doc_ids, one.scores.tolist(), strict=True))}) for one in (first, second)]
    for theirs, ours in (
        (wsum(runs, [1.0, weight]), weighted_sum([first, second], [1.0, weight], "zero")),
        (rrf(runs, k=60), reciprocal_ranks([first, second], [1, 1], 60)),
    ):
        expected = theirs.to_dict()["q"]
        assert dict(zip(ours.doc_ids, ours.scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-6)
