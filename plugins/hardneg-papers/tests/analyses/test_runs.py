"""Tests of candidate counts, overlap curves, unjudged documents and score curves, with numbers computed by hand."""

import numpy as np
import pytest
from hardneg_papers.analyses.runs import (
    CandidateCounts,
    OverlapCurve,
    ScoreTails,
    Unjudged,
    prefix,
    score_tails,
    unjudged_rates,
)
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from hardneg.formats.negatives import write_negatives
from hardneg.records import DataError, Negatives, RankedList
from tests.analysis.in_memory import Memory
from tests.run_lists import doc_lists, falling


def run(**lists):
    return falling({name: list(ids) for name, ids in lists.items()})


GRADES = {"q": {"a": 2, "d": 3, "c": 1}, "r": {"x": 2}}


def counted(first, reranked, level=1, **options):
    asked = CandidateCounts(first={"BM25": "first"}, reranked={"BM25": "reranked"}, **options)
    return asked, asked.measure(Memory(asked, {"first": first, "reranked": reranked}, GRADES, relevance_level=level))


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
    with pytest.raises(DataError, match="1 of the first 3 candidates of query q are not in the reranked run, such"):
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


def mined(path, **lists):
    write_negatives(path, [Negatives(name, ["p"], ids, np.zeros(len(ids), np.float32)) for name, ids in lists.items()])
    return str(path)


RUNS = {
    "start": run(q1=["p", "a", "b", "c"], q2=["d", "e"]),
    "later": run(q1=["b", "c", "p", "d"], q2=["e", "f"]),
    "last": run(q1=["b", "d", "c"]),
}


def curve(tmp_path, depth=2):
    fixed = mined(tmp_path / "fixed.arrow", q1=["a", "b"], q2=["d", "x"])
    fresh = mined(tmp_path / "fresh.arrow", q1=["b", "c"], q2=["e"])
    met = {0: "start", 10: "later", 20: "last"}
    kept = {"BM25 Neg": {0: fixed}, "ANCE": {0: fixed, 10: fresh}}
    given = {"negatives": kept, "met": {"BM25 Neg": met, "ANCE": met}}
    analysis = OverlapCurve.model_validate({**given, "depth": depth})
    return analysis, analysis.measure(Memory(analysis, RUNS))


def test_negatives_stand_until_others_come_and_their_overlap_is_that_with_the_run_of_each_step(tmp_path):
    analysis, found = curve(tmp_path)
    told = {
        label: [(row["step"], row["since"], row["overlap"], row["queries"]) for row in rows]
        for label, rows in found["trainings"].items()
    }
    # step 0: q1 meets a, b and so both; q2 meets d, e and so one of d, x. Step 10: q1 b, c; q2 e, f. Step 20: q1 b, d.
    assert told["BM25 Neg"] == [(0, 0, 0.75, 2), (10, 0, 0.25, 2), (20, 0, 0.5, 1)]
    assert told["ANCE"] == [(0, 0, 0.75, 2), (10, 10, 1.0, 2), (20, 10, 0.5, 1)]
    assert analysis.table(found).rows[-1] == ["ANCE", "20", "10", "50.0%", "1", "1"]
    analysis.draw(found, [tmp_path / "o.svg"])
    text = (tmp_path / "o.svg").read_text()
    assert ">ANCE<" in text and ">overlap at 2<" in text


@pytest.mark.parametrize(
    ("negatives", "met", "told"),
    [
        ({"a": {0: "n"}}, {"b": {0: "r"}}, "a, b: negatives and met must have the same labels"),
        ({"a": {5: "n"}}, {"a": {0: "r"}}, "a: no negatives for the step of this run"),
        ({"a": {-1: "n"}}, {"a": {0: "r"}}, "greater than or equal to 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(negatives, met, told):
    with pytest.raises(ValidationError, match=told):
        OverlapCurve.model_validate({"negatives": negatives, "met": met})


QRELS = {"q1": {"a": 1, "b": 0, "c": -1}, "q2": {"a": 2}, "q3": {"z": 1}}


def measured(runs, **options):
    asked = Unjudged(runs={label: label for label in runs}, **options)
    return asked.measure(Memory(asked, runs, QRELS))


def test_a_document_judged_not_relevant_is_judged():
    lists = {"q1": ["b", "x", "c", "y"], "q2": ["x"], "q4": ["a"]}
    assert unjudged_rates(lists, QRELS, 2) == {"q1": 0.5, "q2": 1.0}
    assert unjudged_rates(lists, QRELS, 10) == {"q1": 0.5, "q2": 1.0}


def test_each_run_has_its_metrics_share_and_overlap_over_the_judged_queries():
    runs = {"BM25": run(q1=["a", "x"], q2=["a", "y"], q9=["u"]), "dense": run(q1=["x", "u"], q2=["a", "b"], q9=["v"])}
    found = measured(runs, depth=2, against="BM25", overlap_depth=2, metrics=("ndcg@1",))
    assert (found["depth"], found["against"], found["judged_zero"]) == (2, "BM25", 2)
    sparse, dense = found["runs"]["BM25"], found["runs"]["dense"]
    assert (sparse["unjudged"], sparse["overlap"], sparse["queries"], sparse["left_out"]) == (0.5, 1.0, 2, 1)
    assert (dense["unjudged"], dense["overlap"]) == (0.75, 0.5)
    assert dense["per_query"] == {"q1": 1.0, "q2": 0.5}
    assert sparse["metrics"]["ndcg@1"] == pytest.approx(2 / 3) and dense["metrics"]["ndcg@1"] == pytest.approx(1 / 3)


def test_without_a_run_to_compare_with_there_is_no_overlap_and_a_wrong_label_is_told():
    runs = {"dense": run(q1=["x"])}
    assert measured(runs, metrics=("mrr@10",))["runs"]["dense"]["overlap"] is None
    with pytest.raises(ValidationError, match="no run is labelled dens; did you mean 'dense'"):
        measured(runs, against="dens")


def scores(*lists, **named):
    named |= {str(number): each for number, each in enumerate(lists)}
    arrays = {name: np.array(each, np.float32) for name, each in named.items()}
    return {name: RankedList([f"d{i}" for i in range(len(each))], each) for name, each in arrays.items()}


def test_a_score_is_its_share_of_the_way_from_the_last_to_the_best():
    (found,) = score_tails(scores([10, 6, 4, 2], [5, 5, 1, 1], [3, 2], [1, 1, 1, 1]), depths=[4, 10])
    assert (found["depth"], found["queries"]) == (4, 2)
    assert found["left_out"] == {"lists that are shorter": 1, "equal scores": 1}
    assert found["ranks"] == [1, 2, 3, 4]
    assert found["mean"] == [1.0, 0.75, 0.125, 0.0]
    assert found["low"] == pytest.approx([1.0, 0.55, 0.025, 0.0])
    assert found["high"] == pytest.approx([1.0, 0.95, 0.225, 0.0])
    assert found["score"] == [7.5, 5.5, 2.5, 1.5]
    assert found["half"] == 3


def test_long_lists_are_told_at_some_ranks_with_the_first_and_the_last():
    (ten, hundred) = score_tails(scores(np.arange(300, 0, -1)), depths=[10, 100, 1000])
    assert ten["ranks"] == list(range(1, 11))
    assert len(hundred["ranks"]) < 60 and hundred["ranks"][-1] == 100 and hundred["mean"][-1] == 0.0
    assert hundred["half"] == 51


@given(st.floats(0.5, 4), st.integers(-8, 8))
def test_neither_scale_nor_origin_matters(scale, shift):
    lists = np.array([[9.0, 4.0, 3.0, 0.0], [7.0, 6.0, 1.0, 0.0]])
    one, other = (score_tails(scores(*each), depths=[4])[0] for each in (lists, lists * scale + shift))
    assert one["mean"] == pytest.approx(other["mean"], abs=1e-5)


def test_single_queries_are_drawn_from_those_of_all_runs():
    runs = {"ours": scores(a=[2, 1], b=[2, 1], c=[2, 1]), "theirs": scores(c=[2, 1], b=[2, 1], z=[2, 1])}

    def single(count, runs=runs):
        asked = ScoreTails(runs={label: label for label in runs}, depths=(2,), single=count)
        return list(asked.measure(Memory(asked, runs))["ours"][0].get("single", {}))

    assert sorted(single(5)) == ["b", "c"] and single(0) == []
    assert single(1) == single(1, dict(reversed(runs.items())))
