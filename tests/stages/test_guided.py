"""Guides, masks, second models and teachers, as a recipe says them."""

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part
from tiny import tiny_encoder
from training.toy import toy_data, write_toy

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.runs import write_run
from hardneg.records import DataError, RankedList, RecipeError, TrainingError
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.train import Train
from hardneg.stages.training import TeacherOptions
from hardneg.training.checkpoint import History

EVERY = ["query-document", "query-query", "document-query", "document-document"]


def tree_of(collection, model, other):
    tree = small_part(collection, model, "start-index", "start-train", "static", "star")
    star = tree["stages"]["star"]
    guided = {**star, "loss": {"name": "infonce", "temperature": 0.05, "directions": EVERY}, "guide": "guide"}
    guided |= {"guided_mask": {"margin": 0.05, "kind": "relative"}, "self_mask": 0.1}
    tree["stages"] |= {
        "another": {"stage": "model", "model": {"name": str(other), "query_length": 16, "document_length": 24}},
        "guide": {"stage": "encode", "model": "another"},
        "guided": guided,
        "taught": {**star, "loss": {"name": "margin-mse", "temperature": 0.1}, "guide": "guide"},
    }
    return tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("guided")
    return tree_of(small_collection(folder / "data"), tiny_model, tiny_encoder(folder / "other", seed=1))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("finished")
    plan = plan_in(folder, {**tree, "stages": {name: spec for name, spec in tree["stages"].items() if name != "star"}})
    return artifacts_of(plan, folder / "store")


@pytest.mark.slow
def test_a_second_model_is_kept_and_encodes(finished, tree):
    spec = tree["stages"]["another"]["model"]
    own = load_learner(ModelSpec(**spec), "cpu").encode(["a red river"], "query")
    kept = load_learner(finished["another"].path / "model", "cpu").encode(["a red river"], "query")
    assert np.array_equal(own, kept)
    assert finished["another"].facts["dimension"] == 32


@pytest.mark.slow
def test_trainings_with_a_guide(finished):
    for name in ("guided", "taught"):
        losses = [record["loss"] for record in History(finished[name].path / "history.jsonl").read()]
        assert len(losses) == 4 and all(np.isfinite(losses)) and losses[-1] > 0
        assert {path.name for path in finished[name].path.iterdir()} == {"model", "history.jsonl", "manifest.json"}
    card = (finished["guided"].path / "model" / "README.md").read_text()
    assert "- Guide: guide\n" in card and "- Guided mask: relative margin 0.05\n- Self-mask: margin 0.1\n" in card


def test_keys(tmp_path, tree):
    before = plan_in(tmp_path, tree).keys
    changed = {
        "stages.guided.guided_mask.margin=0.1": {"guided"},
        "stages.guided.self_mask=null": {"guided"},
        "stages.another.model.query_prompt='ask: '": {"another", "guide", "guided", "taught"},
        "stages.guided.guide=start-index": {"guided"},
    }
    for setting, names in changed.items():
        after = plan_in(tmp_path, tree, setting).keys
        assert {name for name in before if before[name] != after[name]} == names
    plain = {"stage": "train", "loss": "star", "negatives": "some-negatives"}
    assert {"guide", "guided_mask", "self_mask"}.isdisjoint(Train.model_validate(plain).identity())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["guided.guide=null", "guided.self_mask=null"], r"guided\.guide: missing; guided_mask needs its scores: name"),
        (["star.guide=guide"], r"star\.guide: nothing uses it; give guided_mask, or a loss that learns from it"),
        (["taught.guide=null"], r"taught\.teacher: missing; margin-mse learns a run's scores"),
        (["taught.loss.in_batch=0.75"], r"taught\.teacher: missing; margin-mse learns a run's scores and the guide"),
        (["guided.segments={length: 8, count: 2}"], r"guided\.segments: have no scores with each other"),
        (["guide.segments={length: 8, count: 2}"], r"guided\.guide: 'guide' holds several vectors a document; name on"),
    ],
)
def test_mistakes(tmp_path, tree, settings, told):
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, tree, *(f"stages.{setting}" for setting in settings))


def taught_tree(collection, model):
    """The teacher is the encoder itself, before it trains."""
    tree = small_part(collection, model, "start-index", "start-train", "static", "star")
    taught = {**tree["stages"]["star"], "teacher": "teacher"}
    teacher = {"stage": "search", "index": "start-index", "split": "train", "depth": 60}
    tree["stages"] |= {"teacher": teacher, "student": {**taught, "loss": "margin-mse"}}
    tree["stages"] |= {"listwise": {**taught, "loss": "kl"}}
    return tree


@pytest.fixture(scope="module")
def students(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("teach")
    tree = taught_tree(small_collection(folder / "data"), tiny_model)
    tree["stages"].pop("star")
    return folder, tree, artifacts_of(plan_in(folder, tree), folder / "store")


def test_students_learn_from_a_run(students):
    for name in ("student", "listwise"):
        artifact = students[2][name]
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


def test_a_teachers_keys_and_mistakes(students, tmp_path, tiny_model):
    tree = taught_tree(small_collection(tmp_path / "data"), tiny_model)
    before = plan_in(tmp_path, tree).keys
    after = plan_in(tmp_path, tree, "stages.teacher.depth=9").keys
    assert {name for name in before if before[name] != after[name]} == {"teacher", "student", "listwise"}
    with pytest.raises(RecipeError, match=r"stages\.student\.teacher: missing; margin-mse learns a run's scores"):
        plan_in(tmp_path, tree, "stages.student.teacher=null")
    tree["stages"]["refreshed"] = {"stage": "train-refreshed", "loss": "kl", "refresh": {"policy": "every", "every": 9}}
    with pytest.raises(RecipeError, match=r"refreshed\.guide: missing; kl needs its scores: name an encode stage"):
        plan_in(tmp_path, tree)
