"""Fusions by name, and the best of several by development queries."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hardneg.evaluation.fusion import (
    OF_RANX,
    Development,
    Fusion,
    check_grid,
    numbers,
    reciprocal_ranks,
    tune,
    variants,
    weighted_sum,
    zipped,
)
from hardneg.records import DataError, RankedList, UsageError
from hardneg.runtime import Silent


def ranked(**scores):
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    return RankedList(best_first, np.array([scores[doc_id] for doc_id in best_first], np.float32))


FIRST, SECOND = ranked(a=3.0, b=2.0, c=1.0), ranked(c=9.0, d=8.0)


@pytest.mark.parametrize(
    ("method", "depth", "doc_ids"), [("zip", 3, "acb"), ("weighted-sum", 2, "ab"), ("reciprocal-rank", 9, "cabd")]
)
def test_each_way_cuts_at_the_depth(method, depth, doc_ids):
    (found, nothing) = Fusion(method, (1.0, 1.0), depth=depth).over([[FIRST, SECOND], [ranked(), ranked()]])
    assert "".join(found.doc_ids) == doc_ids and len(found.scores) == len(found.doc_ids)
    assert list(nothing.doc_ids) == []


@pytest.mark.parametrize(
    ("fusion", "told"),
    [
        (Fusion("zip", (1.0, 2.0)), "weights: zip does not use weights"),
        (Fusion("weighted-sum", (1.0, 2.0), norm="max"), "norm: weighted-sum does not normalize scores"),
    ],
)
def test_what_a_method_does_not_have_is_told(fusion, told):
    assert [problem.startswith(told) for problem in fusion.problems()] == [True]


def test_the_best_comes_first_and_of_equal_ones_the_earlier():
    fusion = Fusion("weighted-sum", (1.0, 1.0))
    runs, qrels = [{"q": ranked(a=1.0)}, {"q": ranked(b=1.0)}], {"q": {"b": 1}}

    def mean(metric, judged, level, run):
        return min(dict(zip(run["q"].doc_ids, run["q"].scores.tolist(), strict=True))["b"], 3.0)

    found = tune(fusion, Development(["x", "y"], runs, qrels), {"y": [0.5, 2.0, 3.0]}, [], mean, Silent())
    assert [each.fusion.weights for each in found] == [(1.0, 2.0), (1.0, 3.0), (1.0, 0.5)]
    both = variants(Fusion("reciprocal-rank", (1.0, 1.0)), ["x", "y"], {"constant": [0, 60], "x": [1, 2]})
    assert [(each.constant, each.weights) for each in both] == [
        (0, (1, 1.0)), (0, (2, 1.0)), (60, (1, 1.0)), (60, (2, 1.0)),
    ]  # fmt: skip


def test_without_a_grid_weights_in_tenths_sum_to_one():
    weights = [each.weights for each in variants(Fusion("wsum", (1.0, 1.0, 1.0)), ["x", "y", "z"], {})]
    assert len(weights) == len(set(weights)) == 66 and all(sum(each) == pytest.approx(1) for each in weights)


@pytest.mark.parametrize(
    ("method", "grid", "told"),
    [
        ("zip", {}, "zip has no weights"),
        ("wsum", {"yy": [1.0]}, "wsum has no 'yy'"),
        ("weighted-sum", {"constant": [1.0]}, "weighted-sum has no 'constant'"),
        ("reciprocal-rank", {"constant": []}, "constant has no values to try"),
        ("reciprocal-rank", {"constant": [0.9]}, "grid: values of constant must be whole numbers, at least 0"),
        ("reciprocal-rank", {"constant": [-1]}, "grid: values of constant must be whole numbers, at least 0"),
    ],
)
def test_what_cannot_be_tuned_is_told(method, grid, told):
    with pytest.raises(UsageError, match=told):
        check_grid(method, ["x", "y"], grid)


BY_HAND = {
    "max": ({}, {"x": 3, "y": 4, "z": 2}),
    "mnz": ({}, {"x": 3, "y": 10, "z": 2}),
    "wsum": ({"weights": (0.5, 2.0)}, {"x": 1.5, "y": 8.5, "z": 4}),
}
"""Of the lists x 3, y 1 and y 4, z 2: what each method makes of them, by its formula."""


@pytest.mark.parametrize("method", BY_HAND)
def test_methods_of_ranx_by_hand(method):
    options, expected = BY_HAND[method]
    fusion = Fusion(method, **{"weights": (1.0, 1.0), "norm": "none", **options})
    (found,) = fusion.over([[ranked(x=3.0, y=1.0), ranked(y=4.0, z=2.0)]])
    assert found.doc_ids == sorted(expected, key=expected.__getitem__, reverse=True)
    assert dict(zip(found.doc_ids, found.scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-5)


def test_what_tuning_may_choose_is_noted():
    assert numbers(Fusion("wsum", (0.5, 2.0)), ["a", "b"]) == {"weights": {"a": 0.5, "b": 2.0}}
    both = numbers(Fusion("reciprocal-rank", (1.0, 1.0), constant=7), ["a", "b"])
    assert both == {"weights": {"a": 1.0, "b": 1.0}, "constant": 7}


def test_weights_are_tuned_on_other_judged_queries():
    def tried(second, fused):
        known = Development(["a", "b"], [{"dev": FIRST}, {second: SECOND}], {"dev": {"a": 1}})
        return tune(Fusion("wsum", (1.0, 1.0)), known, {}, [fused], lambda *given: 0.0, Silent())

    with pytest.raises(DataError, match="1 query is also in the runs to fuse, such as dev"):
        tried("dev", "dev")
    with pytest.raises(DataError, match="no query of run b has judgements"):
        tried("other", "test")


@pytest.mark.slow
@pytest.mark.parametrize("method", OF_RANX)
def test_published_runs_become_what_ranx_makes_of_them(test_data, method):
    """Scores, and the order wherever ranx's are distinct; blocks of queries are as good as all at once."""
    from ranx import Run, fuse

    from hardneg.formats.runs import read_run, strictly_decreasing

    folder = test_data / "msmarco-dl1920" / "runs"
    runs = [read_run(folder / f"{name}.dl20.trec.gz") for name in ("d_bert_kd_tasb", "bm25")]
    query_ids = sorted(runs[0].keys() & runs[1].keys())[:20]
    lists = [
        {query_id: RankedList(each.doc_ids, strictly_decreasing(each.scores)) for query_id, each in run.items()}
        for run in runs
    ]
    theirs = [
        Run({q: dict(zip(each[q].doc_ids, map(float, each[q].scores), strict=True)) for q in query_ids})
        for each in lists
    ]
    weights = (0.3, 0.7) if method == "wsum" else (1.0, 1.0)
    params = {"weights": [*weights]} if method == "wsum" else {}
    expected = fuse(theirs, method=method, params=params).to_dict()
    ours = Fusion(method, weights, depth=10_000)
    for query_id, found in zip(query_ids, ours.over([each[q] for each in lists] for q in query_ids), strict=True):
        assert (np.diff(found.scores) <= 0).all()
        assert dict(zip(found.doc_ids, found.scores.tolist(), strict=True)) == pytest.approx(
            expected[query_id], rel=1e-5, abs=1e-7
        )


def listed(doc_ids):
    return RankedList(list(doc_ids), np.arange(len(doc_ids), 0, -1, np.float32))


def ids(length, *lists):
    return "".join(zipped([listed(each) for each in lists], length).doc_ids)


def test_turns_by_hand():
    assert ids(5, "1234", "3516") == "13254"
    assert ids(10, "12", "31456") == "132456"
    assert ids(10, "abcd", "ecfa") == "aebcfd"
    assert ids(3, "abcd", "ecfa") == "aeb"
    assert ids(9, "", "ab") == "ab" and ids(9, "", "") == ""
    assert ids(9, "ab", "cd", "ef") == "acebdf"


def test_scores_are_of_the_ranks_alone():
    found = zipped([listed("12"), listed("3")], 10).scores
    assert found.dtype == np.float32 and found.tolist() == [1.0, 0.5, np.float32(1 / 3)]
    assert (np.diff(zipped([listed([f"d{i}" for i in range(5000)]), listed("")], 5000).scores) < 0).all()


LISTS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


def naive(lists, length):
    found = []
    for place in range(max(map(len, lists))):
        for each in lists:
            if place < len(each) and each[place] not in found and len(found) < length:
                found.append(each[place])
    return found


@given(LISTS, st.integers(1, 10))
def test_it_does_what_one_would_do_by_hand(lists, length):
    assert zipped([listed(each) for each in lists], length).doc_ids == naive(lists, length)


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


SCORED = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1).map(
    lambda scores: ranked(**{doc_id: value + ord(doc_id) / 1024 for doc_id, value in scores.items()})
)


@pytest.mark.slow
@settings(max_examples=60)
@given(SCORED, SCORED, st.sampled_from([0.25, 1.0, 1.5]))
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
