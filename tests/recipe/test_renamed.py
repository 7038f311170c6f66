"""Old names in a recipe: read as the new ones, told, and not part of any key."""

import pytest
from recipe.recipes import small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.errors import RecipeError
from hardneg.recipe.load import load_recipe

OLD = {"mask": "none", "across": "own", "order": "consecutive"}
NEW = {"false_negative_mask": False, "share_negatives_across": "none", "iterate_negatives": True}


@pytest.fixture
def tree(tmp_path):
    return small_tree(tmp_path / "data", tmp_path / "model")


def loaded(tmp_path, tree, options, settings=()):
    tree["stages"]["star"]["options"].update(options)
    return load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=settings)


def test_old_names_are_read_as_the_new_ones_and_told(tmp_path, tree):
    recipe = loaded(tmp_path, tree, OLD)
    path = "stages.star.options"
    assert recipe.notes == (
        f"{path}.mask: write false_negative_mask: false; the next release no longer knows mask",
        f"{path}.across: write share_negatives_across: none; the next release no longer knows across",
        f"{path}.order: write iterate_negatives: true; the next release no longer knows order",
    )
    options = recipe.stages["star"].options
    assert {name: getattr(options, name) for name in NEW} == NEW


def test_either_name_has_the_identity_of_before(tmp_path, tree):
    old = loaded(tmp_path, tree, OLD).stages["star"].identity()["options"]
    for name in OLD:
        del tree["stages"]["star"]["options"][name]
    recipe = loaded(tmp_path, tree, NEW)
    assert recipe.notes == () and recipe.stages["star"].identity()["options"] == old
    assert {name: old[name] for name in OLD} == OLD and not NEW.keys() & old.keys()


def test_a_setting_may_use_the_old_name(tmp_path, tree):
    recipe = loaded(tmp_path, tree, {}, ["stages.star.options.mask=known"])
    assert recipe.stages["star"].options.false_negative_mask and len(recipe.notes) == 1


def test_both_names_and_wrong_values_are_problems(tmp_path, tree):
    with pytest.raises(RecipeError) as caught:
        loaded(tmp_path, tree, {"mask": "known", "false_negative_mask": True, "order": "sorted"})
    assert caught.value.problems == (
        "stages.star.options.mask: the old name of false_negative_mask, which is given too: leave it out",
        "stages.star.options.iterate_negatives: must be true or false (got 'sorted')",
    )


def test_the_command_line_tells_once(tmp_path, tree):
    tree["stages"]["star"]["options"]["mask"] = "none"
    found = CliRunner().invoke(app, ["recipe", "plan", str(write_recipe(tmp_path / "r.yaml", tree))])
    assert found.stderr.count("hardneg: stages.star.options.mask: write false_negative_mask: false;") == 1
