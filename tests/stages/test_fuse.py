"""Runs of one split as one, tuned on another split."""

import json

import pytest
from pydantic import ValidationError
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part, stored_collection

from hardneg.evaluation.fusion import weighted_sum
from hardneg.formats.runs import stream_run, write_run
from hardneg.records import RecipeError
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.rescore import Fuse
from tests.run_lists import falling


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


SPARSE = {"q46": ["d46", "d1"], "q47": ["d1", "d47"]}
DENSE = {"q46": ["d1", "d46"], "q47": ["d47", "d3", "d1"]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    stored_collection(folder)
    dev = write_dev(folder)
    for name, lists in {"sparse": SPARSE, "dense": DENSE, **dev}.items():
        (folder / name).mkdir()
        write_run(folder / name / "run.trec.gz", falling(lists).items())
    return folder


def write_dev(folder):
    """Two runs over training queries: the one that is right, and the one that is not."""
    from hardneg.formats.collection import StoredCollection

    qrels = StoredCollection.open(folder / "stored").qrels("train")
    right = {query_id: [*judged, "none"] for query_id, judged in qrels.items()}
    return {"right": right, "wrong": {query_id: ids[::-1] for query_id, ids in right.items()}}


def work_of(stored, folder, spec, **inputs):
    folder.mkdir(exist_ok=True)
    given = {path.replace("__", "."): ArtifactInput(name, "", stored / name) for path, name in inputs.items()}
    given["dataset"] = ArtifactInput("d", "", stored / "stored")
    return StageContext("made", spec, folder, given, {}, Silent())


def fused(stored, folder, runs=("dense", "sparse"), **values):
    spec = Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})
    tuned = {"tuning__runs__x": "wrong", "tuning__runs__y": "right"} if "tuning" in values else {}
    facts = spec.make(work_of(stored, folder, spec, runs__x=runs[0], runs__y=runs[1], **tuned))
    return facts, {query_id: ranked.doc_ids for query_id, ranked in stream_run(folder / "run.trec.gz")}


def test_runs_are_zipped_the_first_one_first(stored, tmp_path):
    facts, lists = fused(stored, tmp_path, method="zip", depth=3)
    assert lists == {"q46": ["d1", "d46"], "q47": ["d47", "d1", "d3"]}
    assert facts["queries that x lacks"] == facts["queries"] - 2


def test_weights_are_tuned_on_another_split(stored, tmp_path):
    tuning = {"runs": {"x": "a", "y": "b"}, "split": "train", "metric": "mrr@10", "grid": {"y": [0.5, 2.0]}}
    facts, lists = fused(stored, tmp_path, method="weighted-sum", tuning=tuning)
    assert facts["tuned"] == {"weights": {"x": 1.0, "y": 2.0}, "mrr@10": 1.0} and facts["tried"] == 2
    assert lists["q46"] == ["d46", "d1"]
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert [each["weights"]["y"] for each in told["tried"]] == [2.0, 0.5] and told["split"] == "train"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"method": "zip", "weights": {"x": 2}}, "weights: zip has none"),
        ({"weights": {"xx": 2}}, r"weights: no run is called 'xx'; did you mean 'x'"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "split": "test"}}, "test is what is fused"),
        ({"tuning": {"runs": {"x": "a", "z": "b"}}}, "must have the labels of runs: x, y"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "grid": {"z": [1]}}}, "weighted-sum has no 'z'"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "metric": "ndgc@10"}}, "did you mean ndcg@10"),
    ],
)
def test_mistakes_are_told_before_anything_runs(values, told):
    with pytest.raises(ValidationError, match=told):
        Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})


def test_what_counts_in_a_fusion():
    def identity(**values):
        return Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values}).identity()

    assert not {"norm", "tuning", "order"} & identity().keys()
    assert identity(method="zip")["order"] == ["x", "y"] != identity(method="zip", runs={"y": "b", "x": "a"})["order"]
    assert identity() == identity(runs={"y": "b", "x": "a"})
    tuning = identity(tuning={"runs": {"x": "a", "y": "b"}})["tuning"]
    assert tuning["runs"] == ["x", "y"] and tuning["split"] == "dev"
