import json

import pytest

from hardneg.evaluation.metrics_json import Measured, read_metrics, to_json, write_metrics
from hardneg.evaluation.significance import compare_all
from hardneg.evaluation.two_level import compare_over_seeds
from hardneg.records import ArtifactError

RESULTS = {
    "bm25": {"ndcg@10": {"q2": 0.5, "q1": 1.0}, "mrr": {"q2": 0.25, "q1": 0.25}},
    "dense": {"ndcg@10": {"q1": 0.5, "q2": 0.5}, "mrr": {"q1": 1.0, "q2": 1.0}},
}


def test_round_trip(tmp_path):
    path = tmp_path / "metrics.json"
    comparisons = compare_all(RESULTS)
    write_metrics(path, Measured(RESULTS, comparisons))
    assert read_metrics(path) == Measured(RESULTS, comparisons)
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]


def test_marks_are_kept(tmp_path):
    measured = Measured(RESULTS, [], {"*": ["bm25"]})
    write_metrics(tmp_path / "m.json", measured)
    assert read_metrics(tmp_path / "m.json") == measured
    assert "marks" not in to_json(Measured(RESULTS))


def test_one_query_has_no_interval(tmp_path):
    results = {"a": {"mrr": {"q": 0.5}}, "b": {"mrr": {"q": 0.25}}}
    write_metrics(tmp_path / "m.json", Measured(results, compare_all(results)))
    assert json.loads((tmp_path / "m.json").read_text())["intervals"] == {"a": {"mrr": None}, "b": {"mrr": None}}
    assert read_metrics(tmp_path / "m.json") == Measured(results, compare_all(results))


def test_content():
    content = to_json(Measured(RESULTS))
    assert content["metrics"]["bm25"] == {"ndcg@10": 0.75, "mrr": 0.25}
    assert content["intervals"]["bm25"]["mrr"] == [0.25, 0.25]
    assert list(content["per_query"]["bm25"]["ndcg@10"]) == ["q1", "q2"]
    assert content["comparisons"] == []


def test_where_seeds_decide_tests_by_query_have_no_verdict_and_intervals_know_the_seeds():
    """Means .5 and .6 of seeds with two queries each: by query nothing varies, over seeds it does."""
    by_seed = {"a": {1: {"m": {"q1": 0.5, "q2": 0.5}}, 2: {"m": {"q1": 0.6, "q2": 0.6}}}}
    same = {"m": {"q1": 0.5, "q2": 0.5}}
    results = {"a": {"m": {"q1": 0.55, "q2": 0.55}}, "b": same, "c": same}
    over = tuple(compare_over_seeds(results, by_seed, ["b"]))
    content = to_json(Measured(results, compare_all(results, ["b"]), by_seed=by_seed, over_seeds=over))
    low, high = content["intervals"]["a"]["m"]
    assert low < 0.5 and high > 0.6 and content["intervals"]["b"]["m"] == [0.5, 0.5]
    decided = {(each["system"], "verdict" in each) for each in content["comparisons"]}
    assert decided == {("a", False), ("c", True)} and all("verdict" in each for each in content["over_seeds"])


def test_the_order_of_queries_does_not_change_the_bytes(tmp_path):
    turned = {
        system: {metric: dict(reversed(values.items())) for metric, values in scores.items()}
        for system, scores in RESULTS.items()
    }
    write_metrics(tmp_path / "a.json", Measured(RESULTS))
    write_metrics(tmp_path / "b.json", Measured(turned))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("text", ["", "[]", '{"metrics": {}}', '{"per_query": {"s": {"mrr": {"q": "high"}}}}'])
def test_foreign_files(tmp_path, text):
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match="not a metrics file"):
        read_metrics(path)


def test_missing_file(tmp_path):
    with pytest.raises(ArtifactError, match=r"metrics\.json"):
        read_metrics(tmp_path / "metrics.json")
