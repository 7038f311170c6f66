import numpy as np
import pytest
from hardneg_papers.analyses.runs import ScoreTails, Unjudged, score_tails, unjudged_rates
from hypothesis import given, strategies as st
from pydantic import ValidationError

from hardneg.records import RankedList
from tests.analysis.in_memory import Memory
from tests.run_lists import falling

QRELS = {"q1": {"a": 1, "b": 0, "c": -1}, "q2": {"a": 2}, "q3": {"z": 1}}


def run(**lists):
    return falling(lists)


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
