import pytest

from hardneg.analysis.holes import HoleOptions, hole_rates, holes
from hardneg.errors import UsageError
from tests.run_lists import falling

QRELS = {"q1": {"a": 1, "b": 0, "c": -1}, "q2": {"a": 2}, "q3": {"z": 1}}


def run(**lists):
    return falling(lists)


def test_a_hole_is_a_document_that_nobody_judged_and_one_judged_not_relevant_is_none():
    lists = {"q1": ["b", "x", "c", "y"], "q2": ["x"], "q4": ["a"]}
    assert hole_rates(lists, QRELS, 2) == {"q1": 0.5, "q2": 1.0}
    assert hole_rates(lists, QRELS, 10) == {"q1": 0.5, "q2": 1.0}


def test_each_run_has_its_metrics_holes_and_overlap_over_the_judged_queries():
    runs = {"BM25": run(q1=["a", "x"], q2=["a", "y"], q9=["u"]), "dense": run(q1=["x", "u"], q2=["a", "b"], q9=["v"])}
    found = holes(runs, QRELS, HoleOptions(depth=2, against="BM25", overlap_depth=2, metrics=("ndcg@1",)))
    assert (found["depth"], found["against"], found["judged_zero"]) == (2, "BM25", 2)
    sparse, dense = found["runs"]["BM25"], found["runs"]["dense"]
    assert (sparse["holes"], sparse["overlap"], sparse["queries"], sparse["left_out"]) == (0.5, 1.0, 2, 1)
    assert (dense["holes"], dense["overlap"]) == (0.75, 0.5)
    assert dense["per_query"] == {"q1": 1.0, "q2": 0.5}
    assert sparse["metrics"]["ndcg@1"] == pytest.approx(2 / 3) and dense["metrics"]["ndcg@1"] == pytest.approx(1 / 3)


def test_without_a_run_to_compare_with_there_is_no_overlap_and_a_wrong_label_is_told():
    runs = {"dense": run(q1=["x"])}
    assert holes(runs, QRELS, HoleOptions(metrics=("mrr@10",)))["runs"]["dense"]["overlap"] is None
    with pytest.raises(UsageError, match="no run 'dens'; did you mean 'dense'"):
        holes(runs, QRELS, HoleOptions(against="dens"))
