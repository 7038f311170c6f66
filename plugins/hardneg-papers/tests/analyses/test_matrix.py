import pytest
from hardneg_papers.analyses.evaluations import Matrix

from hardneg.analysis.base import Files
from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.records import UsageError
from tests.stages.analyzed import analyze

MEANS = {"24 → 24": 0.247, "24 → 48": 0.28, "48 → 48": 0.283}


def measured(folder, rows):
    write_metrics(folder / "metrics.json", Measured({label: {"mrr@10": {"q": mean}} for label, mean in MEANS.items()}))
    return Matrix(evaluation="e", rows=rows).measure(Files({"evaluation": str(folder / "metrics.json")}))


def test_cells_are_means_by_row_and_column_in_their_order_and_what_is_not_named_is_none(tmp_path):
    cells = {"24": {"24": "24 → 24", "48": "24 → 48"}, "48": {"48": "48 → 48"}}
    found = measured(tmp_path, cells)
    assert (found["metric"], found["rows"], found["columns"]) == ("mrr@10", ["24", "48"], ["24", "48"])
    assert found["values"] == [[0.247, 0.28], [None, 0.283]]
    assert measured(tmp_path, {"a": {"x": "24 → 24"}, "b": {"y": "48 → 48", "x": "24 → 48"}})["columns"] == ["x", "y"]


def test_a_label_without_a_mean_is_refused_with_its_place(tmp_path):
    with pytest.raises(UsageError, match=r"rows\.a\.x: no system '24→24' was evaluated"):
        measured(tmp_path, {"a": {"x": "24→24"}})


def test_the_order_of_rows_counts_and_the_evaluation_does_so_by_its_key():
    cells = {"x": "1", "y": "2"}
    rows = [{"a": cells, "b": {}}, {"b": {}, "a": cells}, {"a": {"y": "2", "x": "1"}, "b": {}}]
    first, *others = [analyze({"matrix": {"evaluation": "s", "rows": order}}).identity() for order in rows]
    assert first not in others
    assert first == analyze({"matrix": {"evaluation": "other", "rows": rows[0]}}).identity()
