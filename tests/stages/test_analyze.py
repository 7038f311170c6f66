import json

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.artifacts import Store
from hardneg.errors import DataError, RecipeError, UsageError
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.recipe.publish import publish
from hardneg.stages import analyze
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.work import Input, Work


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("analyze")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    stages = tree["stages"]
    stages["whole"] = {"stage": "search", "index": "star-index", "split": "test", "depth": 60}
    stages["behind"] = {
        "stage": "analyze",
        "indexes": {"start": "start-index", "STAR": "star-index"},
        "runs": {"run": "whole", "short": "start-test"},
        "costs": {"STAR": "star", "v. twice": ["star", "star"]},
        "evaluation": "scores",
        "projection": {"before": "start", "after": "STAR", "negatives": 12},
        "cut": 60,
    }
    stages["queries-of-start"] = {"stage": "analyze", "indexes": {"a": "star-index"}, "models": {"a": "start"}}
    stages["report"]["analyses"] = {"Behind": "behind"}
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
    ablation, costs, projection = (read(made, name) for name in ("ablation", "costs", "projection"))
    assert ablation["metric"] == "mrr@10" and list(ablation["means"]) == ["start", "STAR"]
    assert costs[0]["stages"] == ["star"] and costs[0]["steps"] == 4 and costs[0]["peak_memory"] > 1e7
    assert (costs[0]["devices"], costs[0]["speedup"]) == (["cpu"], 1.0)
    assert (costs[1]["method"], costs[1]["stages"]) == ("v. twice", ["star"])
    assert projection["query_id"] == "q46" and projection["positives"] == ["d46"]
    assert len(projection["negatives"]) == 12 and "d46" not in projection["negatives"]
    assert len(projection["points"]["STAR"]["negatives"]) == 12


def test_the_run_folder_and_the_report_show_them(made):
    folder = made[0] / "out"
    names = {path.name for path in (folder / "analyses" / "behind").iterdir()}
    assert names == {
        f"{name}.{form}" for name in ("errors", "ablation", "projection", "costs") for form in ("json", "png", "svg")
    }
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert page.count("data:image/svg+xml;base64,") == 4 and "Behind: pairwise errors" in page
    assert "## Behind: training costs" in text


def test_the_model_of_the_queries_is_part_of_the_identity(made):
    plan = made[1]
    assert plan.steps["queries-of-start"].inputs["models.a"] == "start"
    assert plan.steps["behind"].inputs["models.STAR"] == "star"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "nothing to analyze"),
        ({"indexes": {"a": "start-index"}, "models": {"b": "start"}}, "no index is labelled b"),
        ({"indexes": {"a": "start-index"}, "projection": {"before": "a", "after": "x"}}, "no index is labelled x"),
        ({"indexes": {"a": "start-index"}, "projection": {"before": "a", "after": "a"}}, "name two indexes"),
        ({"indexes": {"a": "start-index"}, "runs": {"a": "start-test"}}, "an index and a run"),
        ({"runs": {"a": "start-index"}}, "makes index, but run is needed"),
        ({"costs": {"a": ["star", "start-index"]}}, "makes index, but model is needed"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, spec, told):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["behind"] = {"stage": "analyze", **spec}
    with pytest.raises(RecipeError, match=told):
        load_recipe(write_recipe(tmp_path / "small.yaml", tree))


def work(folder, spec, **inputs):
    from hardneg.progress import Silent

    parsed = AnalyzeSpec.model_validate({"stage": "analyze", **spec})
    return Work(
        "behind", parsed, folder, {path: Input(path, "", source) for path, source in inputs.items()}, {}, Silent()
    )


def test_drift_is_read_from_training_histories(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "history.jsonl").write_text('{"step": 3, "drift": {"overlap": 0.5, "mrr@10": 0.2}}\n')
    (tmp_path / "out").mkdir()
    asked = work(tmp_path / "out", {"training": {"static": "adore"}}, **{"training.static": tmp_path / "model"})
    assert analyze.run(asked) == {"analyses": ["drift"]}
    assert json.loads((tmp_path / "out" / "drift.json").read_text()) == {
        "static": {"overlap": [[3.0, 0.5]], "mrr@10": [[3.0, 0.2]]}
    }
    (tmp_path / "model" / "history.jsonl").write_text('{"step": 3, "loss": 1}\n')
    with pytest.raises(DataError, match="adore measured no drift"):
        analyze.run(asked)


def test_a_metric_that_was_not_evaluated_is_told(made, tmp_path):
    scores = made[2]["scores"].path
    with pytest.raises(UsageError, match=r"behind\.metric: 'ndcg@3' was not evaluated"):
        analyze.run(work(tmp_path, {"evaluation": "scores", "metric": "ndcg@3"}, evaluation=scores))
