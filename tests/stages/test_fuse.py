"""Runs of one split as one."""

import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part

from hardneg.evaluation.fusion import weighted_sum
from hardneg.formats.runs import stream_run
from hardneg.records import RecipeError


def tree_of(collection, model):
    search = {"stage": "search", "index": "start-index", "split": "test"}
    runs = {"long": {**search, "depth": 20}, "short": {**search, "depth": 5}}
    both = {"stage": "fuse", "runs": {"long": "long", "short": "short"}, "weights": {"short": 2.5}, "depth": 15}
    ranks = {"stage": "fuse", "runs": {"a": "long", "b": "sum"}, "method": "reciprocal-rank"}
    return small_part(collection, model, "start-index", **runs, sum=both, ranks=ranks)


def lists_of(artifact):
    return {q: (ranked.doc_ids, ranked.scores.tolist()) for q, ranked in stream_run(artifact.path / "run.trec.gz")}


def test_a_sum_of_two_runs(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    plan = plan_in(tmp_path, tree)
    artifacts = artifacts_of(plan, tmp_path / "store")
    long, short, made = (lists_of(artifacts[name]) for name in ("long", "short", "sum"))
    runs = [dict(stream_run(artifacts[n].path / "run.trec.gz")) for n in ("long", "short")]
    for query_id, (ids, scores) in made.items():
        expected = weighted_sum([run[query_id] for run in runs], [1.0, 2.5])
        assert ids == expected.doc_ids[:15] and scores == pytest.approx(expected.scores[:15].tolist(), rel=1e-5)
        assert ids[:5] == long[query_id][0][:5] == short[query_id][0]
    assert lists_of(artifacts["ranks"]).keys() == made.keys() == long.keys()
    assert artifacts["sum"].facts["queries"] == 14 and artifacts["sum"].artifact_type == "run"


def test_what_may_be_said(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)

    def keys(*settings):
        return plan_in(tmp_path, tree, *settings).keys

    assert keys("stages.sum.weights.long=1.0") == keys()
    assert keys("stages.sum.weights.long=1.1")["sum"] != keys()["sum"]
    with pytest.raises(RecipeError, match=r"weights: no run is called 'lnog'; did you mean 'long'\?"):
        keys("stages.sum.weights.lnog=1")
    with pytest.raises(RecipeError, match="at least 2"):
        keys("stages.sum.runs={long: long}", "stages.sum.weights={}")


def test_runs_to_tune_on_are_inputs(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["train"] = {**tree["stages"]["long"], "split": "train"}
    tree["stages"]["sum"]["tuning"] = {"runs": {"long": "train", "short": "train"}, "split": "train"}
    plan = plan_in(tmp_path, tree)
    inputs = plan.steps["sum"].inputs
    assert {path for path in inputs if path != "dataset"} == {
        "runs.long", "runs.short", "tuning.runs.long", "tuning.runs.short",
    }  # fmt: skip
    tree["stages"]["sum"]["tuning"]["runs"]["long"] = "start-index"
    with pytest.raises(RecipeError, match=r"tuning\.runs\.long: 'start-index' makes index, but run is needed"):
        recipe_in(tmp_path, tree)
