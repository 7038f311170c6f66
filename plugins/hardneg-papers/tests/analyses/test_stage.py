import json

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.recipes.execute import Options, Watcher, execute
from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.recipes.run_folder import publish
from hardneg.records.errors import UsageError
from hardneg.stages.base import ArtifactInput
from hardneg.store.artifacts import Store
from tests.stages.analyzed import context, refused
from tests.stages.analyzed import made as made_alone

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("analyze")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    stages = tree["stages"]
    stages["whole"] = {"stage": "search", "index": "star-index", "split": "test", "depth": 60}
    stages["cells"] = {"stage": "evaluate", "runs": stages["scores"]["runs"], "metrics": ["mrr@10", "recall@10"]}
    stages["small"] = {"stage": "index", "vectors": "star-index", "backend": "sq8"}
    both = {"start": "start-index", "STAR": "star-index"}
    stages["behind"] = {
        "stage": "analyze",
        "analysis": {
            "errors": {"indexes": both, "runs": {"run": "whole", "short": "start-test"}, "depth": 60},
            "ablation": {"evaluation": "scores"},
            "matrix": {
                "evaluation": "cells",
                "metric": "recall@10",
                "rows": {"STAR": {"before": "start", "after": "STAR"}, "sq8": {"before": "start"}},
                "axes": ["index", "trained"],
            },
            "projection": {"indexes": both, "negatives": 12},
            "sizes": {"indexes": {**both, "sq8": "small"}},
            "costs": {"methods": {"STAR": "star", "v. twice": ["star", "star"]}},
        },
    }
    errors = {"errors": {"indexes": {"a": "star-index"}, "models": {"a": "start"}}}
    stages["queries-of-start"] = {"stage": "analyze", "analysis": errors}
    operations = {"encoding": "star-index", "search": "star-test", "training": "star", "mining": "static"}
    stages["of-runs"] = {
        "stage": "analyze",
        "analysis": {
            "gradients": {"trainings": {"STAR": "star"}},
            "refreshes": {"trainings": {"STAR": "star"}},
            "operations": {"stages": operations},
            "scores": {"runs": {"start": "start-test", "STAR": "whole"}, "single": 0},
            "overlap": {"negatives": {"STAR": "static"}, "met": {"STAR": "start-train"}, "depth": 10},
            "unjudged": {"runs": {"start": "start-test", "STAR": "whole"}, "against": "start", "overlap_depth": 20},
            "query-wins": {"run": "star-test", "against": "start-test", "metric": "mrr@10"},
        },
    }
    stages["report"]["analyses"] = {"Behind": "behind", "Of runs": "of-runs"}
    path, store = write_recipe(folder / "small.yaml", tree), Store(folder / "store")
    plan = make_plan(load_recipe(path))
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder, plan, outcome.artifacts


def read(made, name):
    return json.loads((made[2]["behind"].path / f"{name}.json").read_text())


def test_errors_over_an_index_are_those_of_a_run_that_lists_the_whole_corpus(made):
    found = read(made, "errors")
    assert list(found) == ["start", "STAR", "run", "short"]
    assert found["STAR"]["queries"] == 14 and found["STAR"]["total_errors"] > 0
    whole = {query_id: row["top"] for query_id, row in found["run"]["per_query"].items()}
    assert {query_id: row["total"] for query_id, row in found["STAR"]["per_query"].items()} == whole
    assert found["run"]["total_errors"] is None
    assert sum(bucket["queries"] for bucket in found["STAR"]["distribution"]) == pytest.approx(1)


def test_the_other_analyses_have_their_numbers(made):
    ablation, costs, (projection,) = (read(made, name) for name in ("ablation", "costs", "projection"))
    assert ablation["metric"] == "mrr@10" and list(ablation["means"]) == ["start", "STAR"]
    assert costs[0]["stages"] == ["star"] and costs[0]["steps"] == 4 and costs[0]["peak_memory"] > 1e7
    assert (costs[0]["devices"], costs[0]["speedup"]) == (["cpu"], 1.0)
    assert (costs[1]["method"], costs[1]["stages"]) == ("v. twice", ["star"])
    documents = projection["documents"]
    assert projection["query_id"] == "q46" and documents["relevant"] == ["d46"]
    assert len(documents["negatives"]) == 12 and "d46" not in documents["negatives"]
    assert len(projection["points"]["STAR"]["documents"]["negatives"]) == 12


def test_the_run_folder_and_the_report_show_them(made):
    folder = made[0] / "out"
    names = {path.name for path in (folder / "analyses" / "behind").iterdir()}
    parts = ("errors", "ablation", "projection", "costs", "matrix", "sizes")
    assert names == {f"{name}.{form}" for name in parts for form in ("json", "png", "svg")}
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert [page.count(f'<img class="figure" alt="{part}: ') for part in ("Behind", "Of runs")] == [6, 7]
    assert "Behind: pairwise errors" in page and page.count("data:image/svg+xml;base64,") >= 6 + 7
    assert "## Behind: training costs" in text


def test_analyses_of_runs_and_trainings_are_made_in_one_recipe(made):
    folder = made[2]["of-runs"].path
    names = ("gradients", "refreshes", "scores", "overlap", "unjudged", "query-wins", "operations")
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in names}
    assert found["gradients"]["STAR"]["loss"]["steps"] == 4 and found["gradients"]["STAR"]["bottom"]["mean"] > 0
    assert found["refreshes"]["STAR"]["steps"] == 4
    assert [tail["depth"] for tail in found["scores"]["STAR"]] == [10]
    # mined are the best ten that are not relevant, of the same run
    assert found["overlap"]["negatives"][0]["overlap"] == 1.0 and found["overlap"]["negatives"][0]["queries"] == 36
    assert found["unjudged"]["runs"]["start"]["overlap"] == 1.0
    assert found["unjudged"]["runs"]["STAR"]["unjudged"] >= 0.9
    assert sum(found["query-wins"][name] for name in ("wins", "losses", "ties")) == 14
    units = ["document", "query", "query", "query", "step", "query"]
    assert [row["unit"] for row in found["operations"]] == units and found["operations"][0]["count"] == 60
    text = (made[0] / "out" / "report.md").read_text()
    assert "## Of runs: documents without a judgement" in text and "## Of runs: time of operations" in text


def test_sizes_are_those_of_the_files_and_the_report_has_quality_and_costs_beside_them(made):
    sizes, matrix = read(made, "sizes"), read(made, "matrix")
    header, dimension = 45, 32
    flat = header + 60 * dimension * 4
    assert sizes[0] == {"index": "start", "vectors": 60, "bytes": flat, "bytes_per_vector": flat / 60, "ratio": 1.0}
    assert sizes[1]["bytes"] == flat
    assert 60 * dimension + 8 * dimension < sizes[2]["bytes"] < 60 * dimension + 8 * dimension + 200
    means = json.loads((made[2]["scores"].path / "metrics.json").read_text())["metrics"]
    before, after = (means[label]["recall@10"] for label in ("start", "STAR"))
    assert matrix["values"] == [[before, after], [before, None]]
    assert (matrix["metric"], matrix["rows"], matrix["columns"]) == ("recall@10", ["STAR", "sq8"], ["before", "after"])
    text = (made[0] / "out" / "report.md").read_text()
    assert "| index | MB | bytes a vector | of the first | before | after | minutes | peak GB |" in text
    assert f"| STAR | 0.01 | 128.8 | 100.0% | {before:.4f} | {after:.4f} |" in text
    assert "| sq8 | 0.00 |" in text and f"| {before:.4f} | – | – | – |" in text


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"errors": {}}, "give indexes, or runs, or both"),
        ({"errors": {"indexes": {"a": "start-index"}, "models": {"b": "start"}}}, "no index is labelled b"),
        ({"projection": {"indexes": {"a": "start-index"}}}, "must have at least 2"),
        ({"errors": {"indexes": {"a": "start-index"}, "runs": {"a": "start-test"}}}, "an index and a run"),
        ({"errors": {"indexes": {"a": "bm25-index"}}}, "holds texts, not vectors; search it and name the run"),
        ({"matrix": {"evaluation": "star", "rows": {"a": {"b": "STAR"}}}}, "makes model, but metrics is needed"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, spec, told):
    assert told in refused(tmp_path, tiny_model, spec)


def test_a_cell_of_no_system_is_told(made, tmp_path):
    asked = {"matrix": {"evaluation": "scores", "rows": {"a": {"b": "STAR!"}}}}
    scores = {"matrix.evaluation": ArtifactInput("scores", "", made[2]["scores"].path)}
    with pytest.raises(UsageError, match=r"behind\.analysis\.matrix\.rows\.a\.b: no system 'STAR!' was .*STAR"):
        made_alone(context(tmp_path, asked, scores))


def test_a_metric_that_was_not_evaluated_is_told(made, tmp_path):
    scores = {"ablation.evaluation": ArtifactInput("scores", "", made[2]["scores"].path)}
    asked = {"ablation": {"evaluation": "scores", "metric": "ndcg@3"}}
    with pytest.raises(UsageError, match=r"behind\.analysis\.ablation\.metric: 'ndcg@3' was not evaluated"):
        made_alone(context(tmp_path, asked, scores))
