"""Learning rates by kind of model: what a recipe takes that says none, and rates that are another kind's."""

import pytest
from recipes.recipes import recipe_in, small_tree
from tiny import tiny_encoder, tiny_static

from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.resolved import resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records.types import PluginSetting
from hardneg.training.options import usual_rate


@pytest.fixture
def tree(tmp_path):
    tree = small_tree(tmp_path / "data", tiny_encoder(tmp_path / "model"))
    del tree["stages"]["star"]["options"]["learning_rate"]
    tree["stages"]["star"]["loss"] = {"name": "star", "temperature": 0.05}
    return tree


def rate_of(tmp_path, tree, *settings):
    return recipe_in(tmp_path, tree, *settings).stages["star"].options.learning_rate


def test_each_kind_has_its_rate(tmp_path):
    whole, table = str(tiny_encoder(tmp_path / "whole")), str(tiny_static(tmp_path / "table"))
    assert usual_rate(resolve(whole)) == 2e-5
    assert usual_rate(resolve(ModelSpec(whole, adapter=AdapterSpec()))) == 2e-4
    derived = resolve(ModelSpec(whole, encoder=PluginSetting("static")))
    assert usual_rate(derived) == usual_rate(resolve(table)) == 0.01
    assert usual_rate(resolve("org/not-here")) is None


def test_a_recipe_takes_the_rate_of_its_models_kind(tmp_path, tree):
    table = f"model.name={tiny_static(tmp_path / 'table')}"
    assert rate_of(tmp_path, tree) == 2e-5 and rate_of(tmp_path, tree, table) == 0.01
    assert rate_of(tmp_path, tree, table, "stages.star.options.learning_rate=0.003") == 0.003
    tree["stages"]["brought"] = {"stage": "model", "model": str(tmp_path / "table")}
    assert rate_of(tmp_path, tree, "stages.star.model=brought") == 0.01
    assert recipe_in(tmp_path, tree).notes == ()
    (note,) = recipe_in(tmp_path, tree, "model.name=org/not-here").notes
    assert note.startswith("stages.star.options.learning_rate: 2e-05 is taken, as nothing is known of org/not-here")
