"""Losses at several sizes of vectors, and penalties, as a recipe says them."""

from dataclasses import replace

import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.encoders.families import Dense
from hardneg.encoders.open.resolved import ResolvedModels, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import RecipeError
from hardneg.stages.train import Train
from hardneg.training.checkpoint import History

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
