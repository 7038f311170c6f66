"""Dual trainings: dimensions, penalties, batches, guides, masks and teachers."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import codes, launch
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part
from tiny import tiny_encoder
from training.toy import toy_data, write_toy

from hardneg.encoders.families import Dense
from hardneg.encoders.open.resolved import ResolvedModels, load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.formats.runs import write_run
from hardneg.records import HISTORY, DataError, RankedList, RecipeError, TrainingError
from hardneg.runtime import Silent, join, leave
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.train import Train
from hardneg.stages.training import TeacherOptions, training_data
from hardneg.store import SCRATCH
from hardneg.training.batch_orders import TopicBalanced
from hardneg.training.checkpoint import History
from hardneg.training.examples import Examples

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
        (["guided.guide=null", "guided.self_mask=null"], r"guided\.guide: missing; guided_mask needs its scores, so"),
        (["star.guide=guide"], r"star\.guide: not used by loss star; set guided_mask"),
        (["taught.guide=null"], r"taught\.teacher: missing; margin-mse needs a run with scores"),
        (["taught.loss.in_batch=0.75"], r"taught\.teacher: missing; margin-mse needs scores of a run and of the guide"),
        (["guided.segments={length: 8, count: 2}"], r"guided\.segments: cannot be combined with"),
        (["guide.segments={length: 8, count: 2}"], r"guided\.guide: 'guide' has several vectors per document; use an"),
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
    taught = TeacherOptions.model_construct().with_teacher
    run = tmp_path / "run" / "run.trec.gz"
    write_run(run, [("q0", RankedList(["p0", "n1"], np.float32([1, 0]))), ("q3", RankedList(["n3"], np.float32([1])))])
    found, told = taught(work, data)
    assert told == {"queries without a positive that the teacher scored": 11} and found.teacher is not None
    write_run(run, [("q0", RankedList(["n1"], np.float32([1])))])
    with pytest.raises(TrainingError, match=r"student\.teacher: reranked has no scores of known.*positives: true"):
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
    with pytest.raises(RecipeError, match=r"stages\.student\.teacher: missing; margin-mse needs a run with scores"):
        plan_in(tmp_path, tree, "stages.student.teacher=null")
    tree["stages"]["refreshed"] = {"stage": "train-refreshed", "loss": "kl", "refresh": {"policy": "every", "every": 9}}
    with pytest.raises(RecipeError, match=r"refreshed\.guide: missing; kl needs its scores, so set it to an"):
        plan_in(tmp_path, tree)


TRAIN = {"stage": "train", "loss": "star", "negatives": "some-negatives"}


def tree_of_dual(collection, model):
    return small_part(collection, model, "start-index", "start-train", "static", "star")


def test_dims_are_a_list_or_have_weights():
    plain = Train.model_validate(TRAIN)
    listed = Train.model_validate({**TRAIN, "dims": [8, 32]})
    assert list(listed.dims.items()) == [(32, 1.0), (8, 1.0)]
    assert listed == Train.model_validate({**TRAIN, "dims": {32: 1, "8": 1}})
    assert plain.dims is None and "dims" not in plain.identity() and "regularizer" not in plain.identity()
    assert listed.identity() == {**plain.identity(), "dims": {"32": 1.0, "8": 1.0}}
    assert listed.model_copy(update={"dims": None}).identity() == plain.identity()


@pytest.mark.parametrize(
    ("dims", "told"), [([], "dims"), ([8, 8], "8 is listed twice"), ([0], "dims"), ({8: 0}, "dims"), ("8", "dims")]
)
def test_dims_that_make_no_sense(dims, told):
    with pytest.raises(ValueError, match=told):
        Train.model_validate({**TRAIN, "dims": dims})


def test_precisions_are_those_of_indexes_and_stand_in_the_identity_where_they_are_set():
    plain = Train.model_validate(TRAIN)
    both = Train.model_validate({**TRAIN, "precisions": ["float32", "binary"]})
    assert both.identity() == {**plain.identity(), "precisions": ["float32", "binary"]}
    assert "precisions" not in plain.identity()
    with pytest.raises(ValueError, match="'float32', 'int8' or 'binary'"):
        Train.model_validate({**TRAIN, "precisions": ["int4"]})
    with pytest.raises(ValueError, match=r"precisions\n.*binary is listed twice"):
        Train.model_validate({**TRAIN, "precisions": ["binary", "float32", "binary"]})


def test_keys_and_mistakes(tmp_path, tiny_model):
    tree = tree_of_dual(small_collection(tmp_path / "data"), tiny_model)
    key = plan_in(tmp_path, tree).keys["star"]
    keys = {plan_in(tmp_path, tree, f"stages.star.dims={dims}").keys["star"] for dims in ("[32, 8]", "{32: 1, 8: 2}")}
    assert len(keys | {key}) == 3
    with pytest.raises(RecipeError, match=r"\.star\.dims: must be at most 16, as in the recipe's model, not 48"):
        plan_in(tmp_path, tree, "stages.star.dims=[48, 16]", "model.truncate_dim=16")
    with pytest.raises(RecipeError, match="must be at most 32, as in the recipe's model, not 64"):
        plan_in(tmp_path, tree, "stages.star.dims=[64, 16]")


def brings(monkeypatch, form, trainable=True):
    """Has every model be of a family that makes this of a text."""
    family, of = type("Other", (Dense,), {"form": form, "trainable": trainable})(), ResolvedModels.of
    monkeypatch.setattr(ResolvedModels, "of", lambda *given, **named: replace(of(*given, **named), family=family))


@pytest.mark.parametrize(
    ("form", "settings", "told"),
    [
        ("weights", ["dims=[8]"], "dims: the recipe's model has term weights, which cannot be truncated"),
        ("weights", ["segments={length: 8, count: 2}"], "segments: cannot be combined with the recipe's model"),
    ],
)
def test_what_the_model_does_not_make(tmp_path, tiny_model, monkeypatch, form, settings, told):
    """Whatever its kind; one that is not on this machine yet is not judged."""
    tree = tree_of_dual(small_collection(tmp_path / "data"), tiny_model)
    brings(monkeypatch, form)
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, tree, *(f"stages.star.{setting}" for setting in settings))
    brings(monkeypatch, form, trainable=False)
    with pytest.raises(RecipeError, match="the recipe's model has no local weights, so it cannot be trained"):
        plan_in(tmp_path, tree)
    assert resolve(ModelSpec("nobody/nothing")).known_family is None


TOPICS = {"batches": {"name": "topic-balanced", "clusters": 3}, "batches_from": "start-index"}


def ordered_tree(collection, model, **said):
    tree = small_part(collection, model, "start-index", "start-train", "static", "star")
    tree["stages"]["star"] |= said
    return tree


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_collection(tmp_path_factory.mktemp("batches") / "data")


def test_what_it_says_is_in_the_key_and_saying_nothing_is_not(small, tmp_path, tiny_model):
    keys = [
        plan_in(tmp_path, ordered_tree(small, tiny_model, **said)).keys["star"]
        for said in ({}, {"batches": "shuffled"}, TOPICS, {**TOPICS, "batches": "topic-balanced"})
    ]
    assert keys[0] == keys[1] and len(set(keys)) == 3
    plan = plan_in(tmp_path, ordered_tree(small, tiny_model, **TOPICS))
    assert plan.steps["star"].inputs["batches_from"] == "start-index"
    assert plan.steps["star"].inputs["batches_from.model"] == "start"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"batches": "topic-balanced"}, r"batches_from: missing; order topic-balanced needs vectors, so set it"),
        ({**TOPICS, "options": {"iterate_negatives": True}}, r"batches: cannot be combined with options.iterate_neg"),
        ({"options": {"negatives_drawn": "margin_bins"}}, r"negatives_drawn: margin_bins needs a teacher's scores"),
    ],
)
def test_mistakes_of_an_order(small, tmp_path, tiny_model, said, told):
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, ordered_tree(small, tiny_model, **said))


def test_trainings_with_each_order(small, tmp_path, tiny_model):
    stages = {
        "topics": TOPICS,
        "near": {"batches": "clustered", "batches_from": "start-index"},
        "hard": {"batches": {"name": "hardest-together", "neighbours": 4}, "batches_from": "start-train"},
    }
    tree = ordered_tree(small, tiny_model)
    star = tree["stages"].pop("star")
    star["options"] |= {"max_steps": 2}
    tree["stages"] |= {name: {**star, **said} for name, said in stages.items()}
    artifacts = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    weights = {(artifacts[name].path / "model" / "model.safetensors").read_bytes() for name in stages}
    assert len(weights) == 3
    assert not any((artifacts[name].path / SCRATCH).exists() for name in stages)


def test_two_teachers_topics_and_margin_bins_go_together(small, tmp_path, tiny_model):
    """The whole of TAS-B, for two steps."""
    tree = ordered_tree(small, tiny_model, **TOPICS)
    tree["stages"]["teacher"] = {**tree["stages"]["start-train"], "candidates": "start-train", "positives": True}
    tree["stages"]["star"] |= {
        "teacher": "teacher",
        "guide": "start-index",
        "loss": {"name": "margin-mse", "in_batch": 0.75},
        "options": {"max_steps": 2, "batch_size": 8, "negatives_drawn": "margin_bins"},
    }
    artifact = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")["star"]
    losses = [record["loss"] for record in History(artifact.path / HISTORY).read()]
    assert len(losses) == 2 and all(0 <= loss < 1 for loss in losses)


def context_of(folder: Path, collection: Path, model: Path) -> StageContext:
    """A training with batches of one topic, at work in a folder."""
    from hardneg.encoders.spec import ModelSpec

    options = {"batch_size": 6, "negatives_per_query": 0}
    spec = Train.model_validate({"stage": "train", "loss": "star", "options": options, **TOPICS})
    inputs = {
        "dataset": ArtifactInput("dataset", "", collection),
        "batches_from.model": ArtifactInput("start", "", None, model=ModelSpec(str(model), query_length=16)),
    }
    return StageContext("topics", spec, folder, inputs, {"batches": TopicBalanced(3)}, Silent(), "cpu")


def batches_of(context: StageContext, collection: StoredCollection) -> list[list[str]]:
    data = context.spec.with_order(context, training_data(collection, collection.queries("train"), None))
    examples = Examples(data, 0, 42)
    return [examples.draw(start, 6).query_ids for start in range(0, 3 * len(examples), 6)]


def main(folder: str, collection: str, model: str) -> None:
    """Writes the batches of three epochs, as one of several processes draws them."""
    here = join(on_cpu=True)
    context = context_of(Path(folder), Path(collection), Path(model))
    found = batches_of(context, StoredCollection.open(Path(collection)))
    lines = "".join(f"{' '.join(batch)}\n" for batch in found)
    Path(folder, f"batches-{here.size}-{here.rank}").write_text(lines)
    leave()


@pytest.mark.slow
def test_one_and_two_processes_and_one_that_goes_on_have_the_same_batches(small, tmp_path, tiny_model):
    dataset = artifacts_of(plan_in(tmp_path, ordered_tree(small, tiny_model)), tmp_path / "store", until="dataset")[
        "dataset"
    ].path
    for number in (1, 2):
        folder = tmp_path / f"work-{number}"
        folder.mkdir()
        assert codes(launch([__file__, folder, dataset, tiny_model], number)) == [0] * number
    one = (tmp_path / "work-1" / "batches-1-0").read_text()
    assert len(one.splitlines()) == 18
    assert [(tmp_path / "work-2" / f"batches-2-{rank}").read_text() for rank in range(2)] == [one, one]
    clusters = np.load(tmp_path / "work-1" / SCRATCH / "batches.npy")
    places = {f"q{place}": int(cluster) for place, cluster in enumerate(clusters)}
    sizes = np.bincount(clusters)
    for batch in one.splitlines():
        found = {places[query_id] for query_id in batch.split()}
        assert len(found) == 1 or sizes.min() < 6
    np.save(tmp_path / "work-1" / SCRATCH / "batches.npy", np.zeros_like(clusters))
    again = batches_of(context_of(tmp_path / "work-1", dataset, tiny_model), StoredCollection.open(dataset))
    assert again != [batch.split() for batch in one.splitlines()]  # what was kept is what is used


if __name__ == "__main__":
    main(*sys.argv[1:])
