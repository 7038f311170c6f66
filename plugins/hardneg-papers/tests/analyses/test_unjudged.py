import pytest
from hardneg_papers.analyses.runs import Unjudged, unjudged_rates
from pydantic import ValidationError

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
