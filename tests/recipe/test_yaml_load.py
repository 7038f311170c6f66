import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardneg.errors import HardnegError, RecipeError, UsageError
from hardneg.recipe.inheritance import apply_preset, merge, without_removed
from hardneg.recipe.yaml_load import apply_settings, find_recipe, read_tree, shipped_recipes


def test_the_shipped_recipes_are_found():
    assert "star-passage" in shipped_recipes()
    with pytest.raises(UsageError, match="did you mean 'star-passage'"):
        find_recipe("star-passages")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [\n", "line 3, column 1"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: the key 'a' stands here for the second time"),
        ("- 1\n", "must be a mapping"),
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("? [1, 2]\n: 3\n", "unhashable|mapping|key"),
    ],
)
def test_what_is_no_recipe_is_told_with_its_line(tmp_path, text, message):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        read_tree(path)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_tree_or_one_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "r.yaml"
    path.write_bytes(content)
    with contextlib.suppress(HardnegError):
        assert isinstance(read_tree(path), dict)


def test_a_preset_lays_itself_over():
    tree = {"a": {"b": 1, "c": 2}, "presets": {"demo": {"a": {"b": 5}}, "paper": {"a": {"c": None}}}}
    assert apply_preset(tree, None) == ({"a": {"b": 5, "c": 2}}, "demo", [])
    paper, chosen, problems = apply_preset(tree, "paper")
    assert (without_removed(paper), chosen, problems) == ({"a": {"b": 1}}, "paper", [])
    assert "did you mean 'paper'" in apply_preset(tree, "papr")[2][0]


def test_settings_reach_into_short_forms():
    tree = {"dataset": "beir:x/y", "model": "packaged:M", "stages": {"s": {"loss": "star"}}}
    changed, problems = apply_settings(
        tree, ["stages.s.loss.alpha=0.5", "model.query_length=9", "dataset.source=z", "bad"]
    )
    assert changed["stages"]["s"]["loss"] == {"name": "star", "alpha": 0.5}
    assert changed["model"] == {"name": "packaged:M", "query_length": 9}
    assert changed["dataset"] == {"name": "beir", "source": "z"}
    assert problems == ["--set bad: must be of the form path.to.key=value"]
    assert tree["stages"]["s"] == {"loss": "star"}


def test_merge_replaces_lists_and_removes_nulls():
    assert without_removed(merge({"a": [1, 2], "b": 1}, {"a": [3], "b": None, "c": 4})) == {"a": [3], "c": 4}


def test_a_mapping_may_take_the_keys_of_another(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("a: &first {x: 1, y: 2}\nb: {<<: *first, y: 3}\n")
    assert read_tree(path)["b"] == {"x": 1, "y": 3}
