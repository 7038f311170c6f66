"""Tests of matrices, and of comparisons over several collections, with numbers computed by hand."""

from pathlib import Path

import numpy as np
import pytest
from hardneg_papers.analyses.evaluations import AcrossCollections, Matrix, spread_over_collections

from hardneg.analysis.base import Files
from hardneg.evaluation.intervals import spread
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.records import UsageError
from tests.stages.analyzed import analyze

MEANS = {"24 → 24": 0.247, "24 → 48": 0.28, "48 → 48": 0.283}


def matrix_of(folder, rows):
    write_metrics(folder / "metrics.json", Measured({label: {"mrr@10": {"q": mean}} for label, mean in MEANS.items()}))
    return Matrix(evaluation="e", rows=rows).measure(Files({"evaluation": str(folder / "metrics.json")}))


def test_cells_are_means_by_row_and_column_in_their_order_and_what_is_not_named_is_none(tmp_path):
    cells = {"24": {"24": "24 → 24", "48": "24 → 48"}, "48": {"48": "48 → 48"}}
    found = matrix_of(tmp_path, cells)
    assert (found["metric"], found["rows"], found["columns"]) == ("mrr@10", ["24", "48"], ["24", "48"])
    assert found["values"] == [[0.247, 0.28], [None, 0.283]]
    assert matrix_of(tmp_path, {"a": {"x": "24 → 24"}, "b": {"y": "48 → 48", "x": "24 → 48"}})["columns"] == ["x", "y"]


def test_a_label_without_a_mean_is_refused_with_its_place(tmp_path):
    with pytest.raises(UsageError, match=r"rows\.a\.x: system '24→24' was not evaluated"):
        matrix_of(tmp_path, {"a": {"x": "24→24"}})


def test_the_order_of_rows_counts_and_the_evaluation_does_so_by_its_key():
    cells = {"x": "1", "y": "2"}
    rows = [{"a": cells, "b": {}}, {"b": {}, "a": cells}, {"a": {"y": "2", "x": "1"}, "b": {}}]
    first, *others = [analyze({"matrix": {"evaluation": "s", "rows": order}}).identity() for order in rows]
    assert first not in others
    assert first == analyze({"matrix": {"evaluation": "other", "rows": rows[0]}}).identity()


ONE = {"A": [{"q1": 0.5, "q2": 0.7}], "B": [{"q1": 0.4, "q2": 0.4}], "C": [{"q1": 1.0, "q2": 1.0}]}
TWO = {"A": [{"q1": 0.0, "x": 0.2, "y": 0.4}], "B": [{"q1": 0.0, "x": 0.0, "y": 0.0}]}


def written(folder: Path, **collections: dict[str, list[dict[str, float]]]) -> dict[str, str]:
    for name, systems in collections.items():
        seeds = {
            system: {seed: {"mrr@10": scores} for seed, scores in enumerate(rows)}
            for system, rows in systems.items()
            if len(rows) > 1
        }
        results = {system: averaged([{"mrr@10": scores} for scores in rows]) for system, rows in systems.items()}
        write_metrics(folder / f"{name}.json", Measured(results, by_seed=seeds))
    return {name: str(folder / f"{name}.json") for name in collections}


def measured(files: dict[str, str], **more: str) -> tuple[AcrossCollections, dict]:
    analysis = AcrossCollections.model_validate({"evaluations": files, **more})
    return analysis, analysis.measure(Files({path: name for path, name, _ in analysis.references()}))


def test_each_collection_counts_alike(tmp_path):
    """A has .6 on two queries and .2 on three, mean .4; B has .4 and 0, mean .2; C is in one collection: no row."""
    analysis, results = measured(written(tmp_path, one=ONE, two=TWO), baseline="B")
    assert {system: round(each["mean"], 6) for system, each in results["systems"].items()} == {"A": 0.4, "B": 0.2}
    assert results["systems"]["A"]["means"] == pytest.approx({"one": 0.6, "two": 0.2})
    (test,) = results["tests"]
    # differences .1, .3 and 0, .2, .4: variances of the means .01 and .04 / 3, of their mean .0058333, freedom 2.882
    assert test["difference"] == pytest.approx(0.2)
    assert test["p"] == test["holm"] == pytest.approx(0.0824, abs=1e-4)
    first, second = analysis.tables(results)
    assert list(first.columns) == ["mrr@10", "one", "two", "mean", "deviation over seeds"]
    assert list(first.rows[0]) == ["A", "0.6000", "0.2000", "0.4000", "–"]
    assert second.rows[0][:2] == ["A − B", "+0.2000"]


def test_a_seed_is_one_draw_for_all_collections(tmp_path):
    """Seeds that raise one collection and lower the other by the same amount do not change the mean."""
    one = {"A": [{"q": 0.5, "r": 0.7}, {"q": 0.7, "r": 0.9}], "B": [{"q": 0.1, "r": 0.3}]}
    against = {"A": [{"q": 0.7, "r": 0.9}, {"q": 0.5, "r": 0.7}], "B": [{"q": 0.1, "r": 0.3}]}
    _, apart = measured(written(tmp_path, one=one, two=against), baseline="B")
    _, alike = measured(written(tmp_path, one=one, two=one), baseline="B")
    assert apart["systems"]["A"]["deviation"] == pytest.approx(0.0)
    assert alike["systems"]["A"]["deviation"] == pytest.approx(0.02**0.5)
    assert apart["systems"]["A"]["mean"] == alike["systems"]["A"]["mean"] == pytest.approx(0.7)
    assert apart["tests"][0]["seed_p"] < 1e-9 < alike["tests"][0]["seed_p"]


def test_systems_that_are_not_everywhere(tmp_path):
    with pytest.raises(UsageError, match=r"'C' does not have mrr@10 on every collection; available: A, B"):
        measured(written(tmp_path, one=ONE, two=TWO), baseline="C")
    with pytest.raises(UsageError, match=r"^evaluations: no system has ndcg@10 on every collection; choose"):
        measured(written(tmp_path, one=ONE, two=TWO), metric="ndcg@10")
    analysis, results = measured(written(tmp_path, one=ONE, two={**TWO, "D": TWO["A"]}))
    assert [*results["systems"]] == ["A", "B"] and results["left out"] == ["C", "D"]
    assert analysis.explain(results).endswith(" Left out, as mrr@10 is missing on some collections: C, D.")
    analysis, results = measured(written(tmp_path, one=ONE, two={**TWO, "C": TWO["A"]}))
    assert results["left out"] == [] and analysis.explain(results) == analysis.explained


def test_a_system_has_the_same_seeds_everywhere(tmp_path):
    one = {"A": [{"q": 0.5}, {"q": 0.7}], "B": [{"q": 0.1}]}
    with pytest.raises(UsageError, match="'A' has different seeds on different collections; evaluate the same"):
        measured(written(tmp_path, one=one, two={"A": [{"q": 0.5}], "B": [{"q": 0.1}]}), baseline="B")


def test_one_collection_has_the_spread_of_its_tables_and_more_have_that_of_their_mean() -> None:
    first, second = np.array([[0.5, 0.7, 0.1], [0.6, 0.9, 0.2]]), np.array([[0.4, 0.4, 0.3]])
    whole = spread([first, second])
    assert spread_over_collections([[first, second]]) == whole
    twice = spread_over_collections([[first, second], [first, second]])
    assert twice.mean == pytest.approx(whole.mean)
    # queries are drawn in each: half the variance; a seed is one draw for both: the same
    assert twice.query.variance == pytest.approx(whole.query.variance / 2)
    assert twice.rest[0].variance == pytest.approx(whole.rest[0].variance / 2)
    assert twice.seed_variance == pytest.approx(whole.seed_variance)
    assert twice.query.freedom == pytest.approx(2 * whole.query.freedom)
