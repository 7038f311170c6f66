"""Dual trainings: sizes of vectors, penalties, and which queries share a batch."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import codes, launch
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.encoders.families import Dense
from hardneg.encoders.open.resolved import ResolvedModels, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.records import HISTORY, RecipeError, UsageError
from hardneg.runtime import Silent, join, leave
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.train import Train
from hardneg.stages.training import training_data
from hardneg.store import SCRATCH
from hardneg.training.batch_orders import TopicBalanced
from hardneg.training.checkpoint import History
from hardneg.training.examples import Examples

TRAIN = {"stage": "train", "loss": "star", "negatives": "some-negatives"}


def tree_of(collection, model):
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
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    key = plan_in(tmp_path, tree).keys["star"]
    keys = {plan_in(tmp_path, tree, f"stages.star.dims={dims}").keys["star"] for dims in ("[32, 8]", "{32: 1, 8: 2}")}
    assert len(keys | {key}) == 3
    with pytest.raises(RecipeError, match=r"\.star\.dims: 48 is more than the 16 dimensions of the recipe's model"):
        plan_in(tmp_path, tree, "stages.star.dims=[48, 16]", "model.truncate_dim=16")
    with pytest.raises(RecipeError, match="64 is more than the 32 dimensions of the recipe's model"):
        plan_in(tmp_path, tree, "stages.star.dims=[64, 16]")


def brings(monkeypatch, form, trainable=True):
    """Has every model be of a family that makes this of a text."""
    family, of = type("Other", (Dense,), {"form": form, "trainable": trainable})(), ResolvedModels.of
    monkeypatch.setattr(ResolvedModels, "of", lambda *given, **named: replace(of(*given, **named), family=family))


@pytest.mark.parametrize(
    ("form", "settings", "told"),
    [
        ("weights", ["precisions=[binary]"], "precisions: the recipe's model makes weights of terms"),
        ("weights", ["dims=[8]"], "dims: the recipe's model makes weights of terms, which cannot be cut"),
        ("weights", ["segments={length: 8, count: 2}"], "segments: the recipe's model makes weights of terms"),
    ],
)
def test_what_the_model_does_not_make(tmp_path, tiny_model, monkeypatch, form, settings, told):
    """Whatever its kind; one that is not on this machine yet is not judged."""
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    brings(monkeypatch, form)
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, tree, *(f"stages.star.{setting}" for setting in settings))
    brings(monkeypatch, form, trainable=False)
    with pytest.raises(RecipeError, match="the recipe's model has no weights here, so it cannot be trained"):
        plan_in(tmp_path, tree)
    assert resolve(ModelSpec("nobody/nothing")).known_family is None


@pytest.mark.slow
def test_a_model_trained_at_several_dimensions(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["star"] |= {"dims": {32: 1, 8: 0.5}}
    made = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")["star"]
    losses = [record["loss"] for record in History(made.path / "history.jsonl").read()]
    assert len(losses) == 4 and all(0 < loss < 3 for loss in losses)
    card = (made.path / "model" / "README.md").read_text()
    assert "- Trained at: 32, 8 (weight 0.5) dimensions: the first of a vector can be used alone" in card


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
        ({"batches": "topic-balanced"}, r"batches_from: missing; topic-balanced is made by vectors: name an encode"),
        ({**TOPICS, "batches_from": "start-train"}, r"batches_from: 'start-train' has no vectors; name an encode"),
        ({"batches_from": "start-train"}, r"batches_from: batches shuffled are made by the queries alone; leave it"),
        ({**TOPICS, "options": {"iterate_negatives": True}}, r"batches: options.iterate_negatives has a query's ex"),
        ({"options": {"negatives_drawn": "margin_bins"}}, r"negatives_drawn: margin_bins are of the scores of a"),
    ],
)
def test_mistakes_of_an_order(small, tmp_path, tiny_model, said, told):
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, ordered_tree(small, tiny_model, **said))


def test_a_wrong_option_is_told_alone(small, tmp_path, tiny_model):
    wrong = {"batches": {"name": "topic-balanced", "clusters": 0}, "batches_from": "start-index"}
    with pytest.raises(RecipeError) as told:
        plan_in(tmp_path, ordered_tree(small, tiny_model, **wrong))
    assert "1 problem" in str(told.value) and "clusters must be 1 or above, not 0" in str(told.value)


def test_more_clusters_than_queries_are_told(small, tmp_path, tiny_model):
    plan = plan_in(tmp_path, ordered_tree(small, tiny_model, **TOPICS), "stages.star.batches.clusters=500")
    with pytest.raises(UsageError, match=r"topic-balanced: cannot make 500 clusters of 36 queries: give 1 to 36"):
        artifacts_of(plan, tmp_path / "store")


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
    data = context.spec.ordered(context, training_data(collection, collection.queries("train"), None))
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
