"""Training on a run's scores, as a recipe says it."""

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part
from training.toy import toy_data, write_toy

from hardneg.formats.runs import write_run
from hardneg.records.errors import DataError, RecipeError, TrainingError
from hardneg.records.types import RankedList
from hardneg.runtime.progress import Silent
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.training import TeacherOptions
from hardneg.training.history import History


def tree_of(collection, model):
    """The teacher is the encoder itself, before it trains."""
    tree = small_part(collection, model, "start-index", "start-train", "static", "star")
    taught = {**tree["stages"]["star"], "teacher": "teacher"}
    teacher = {"stage": "search", "index": "start-index", "split": "train", "depth": 60}
    tree["stages"] |= {"teacher": teacher, "student": {**taught, "loss": "margin-mse"}}
    tree["stages"] |= {"listwise": {**taught, "loss": "kl"}}
    return tree


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("teach")
    tree = tree_of(small_collection(folder / "data"), tiny_model)
    tree["stages"].pop("star")
    return folder, tree, artifacts_of(plan_in(folder, tree), folder / "store")


def test_students_learn_from_a_run(finished):
    for name in ("student", "listwise"):
        artifact = finished[2][name]
        losses = [record["loss"] for record in History(artifact.path / "history.jsonl").read()]
        assert len(losses) == 4 and all(0 <= loss < 1 for loss in losses) and losses[-1] > 0
        assert artifact.facts["queries without a positive that the teacher scored"] == 0
        assert "the scores of teacher" in (artifact.path / "model" / "README.md").read_text()
        assert not (artifact.path / "checkpoints").exists()


def test_a_run_must_score_positives_of_these_queries(tmp_path):
    data = toy_data(write_toy(tmp_path / "toy"))
    (tmp_path / "run").mkdir()
    inputs = {"teacher": ArtifactInput("reranked", "", tmp_path / "run")}
    work = StageContext("student", None, tmp_path / "work", inputs, {}, Silent())
    taught = TeacherOptions.model_construct().taught
    run = tmp_path / "run" / "run.trec.gz"
    write_run(run, [("q0", RankedList(["p0", "n1"], np.float32([1, 0]))), ("q3", RankedList(["n3"], np.float32([1])))])
    found, told = taught(work, data)
    assert told == {"queries without a positive that the teacher scored": 11} and found.teacher is not None
    write_run(run, [("q0", RankedList(["n1"], np.float32([1])))])
    with pytest.raises(TrainingError, match=r"student\.teacher: reranked scores no known positive.*positives: true"):
        taught(work, data)
    write_run(run, [("q40", RankedList(["p0"], np.float32([1])))])
    with pytest.raises(DataError, match="query q40 is not in the split"):
        taught(work, data)
    assert taught(StageContext("student", None, tmp_path / "work", {}, {}, Silent()), data) == (data, {})


def test_keys_and_mistakes(finished, tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    before = plan_in(tmp_path, tree).keys
    after = plan_in(tmp_path, tree, "stages.teacher.depth=9").keys
    assert {name for name in before if before[name] != after[name]} == {"teacher", "student", "listwise"}
    with pytest.raises(RecipeError, match=r"stages\.student\.teacher: missing; margin-mse learns a run's scores"):
        plan_in(tmp_path, tree, "stages.student.teacher=null")
    tree["stages"]["refreshed"] = {"stage": "train-refreshed", "loss": "kl", "refresh": {"policy": "every", "every": 9}}
    with pytest.raises(RecipeError, match=r"refreshed\.guide: missing; kl needs its scores: name an encode stage"):
        plan_in(tmp_path, tree)
