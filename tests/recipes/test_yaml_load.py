import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardneg.recipes import apply_settings, find_recipe, read_tree, shipped_recipes
from hardneg.records import HardnegError, RecipeError, UsageError


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


def test_settings_reach_into_short_forms():
    tree = {"dataset": "beir:x/y", "model": "packaged:M", "stages": {"s": {"loss": "star"}}}
    settings = ["stages.s.loss.alpha=0.5", "model.query_length=9", "dataset.source=z", "bad"]
    changed, problems = apply_settings(tree, settings)
    assert changed["stages"]["s"]["loss"] == {"name": "star", "alpha": 0.5}
    assert changed["model"] == {"name": "packaged:M", "query_length": 9}
    assert changed["dataset"] == {"name": "beir", "source": "z"}
    assert problems == ["set bad: must be of the form path.to.key=value"]
    assert tree["stages"]["s"] == {"loss": "star"}



def test_a_mapping_may_take_the_keys_of_another(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("a: &first {x: 1, y: 2}\nb: {<<: *first, y: 3}\n")
    assert read_tree(path)["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [("10", 10), ("0", 0), ("1_000", 1000), ("0x10", 16), ("'010'", "010"), ("0.5", 0.5), ("00a", "00a")],
)
def test_plain_numbers_and_texts_stay(text, value):
    assert apply_settings({}, [f"a={text}"]) == ({"a": value}, [])


def test_what_is_too_deep_is_told_in_our_words(tmp_path):
    deep = "[" * 1000 + "]" * 1000
    (tmp_path / "r.yaml").write_text(f"a: {deep}\n")
    with pytest.raises(RecipeError, match="over 50 levels deep"):
        read_tree(tmp_path / "r.yaml")
    assert apply_settings({}, [f"a={deep}"])[1] == ["set a: over 50 levels deep"]


def test_how_long_a_training_is_replaces_how_long_it_was():
    tree = {"t": {"options": {"max_steps": 42, "stop_at": 9, "seed": 1}}}
    assert apply_settings(tree, ["t.options.epochs=3"]) == ({"t": {"options": {"epochs": 3, "seed": 1}}}, [])
    both = ["t.options.stop_at=5", "t.options.max_steps=50"]
    assert apply_settings(tree, both) == ({"t": {"options": {"max_steps": 50, "stop_at": 5, "seed": 1}}}, [])
    assert apply_settings({"warmup_steps": 5}, ["warmup_ratio=0.1"]) == ({"warmup_ratio": 0.1}, [])
    assert apply_settings({"epochs": 5}, ["max_steps=null"]) == ({"epochs": 5, "max_steps": None}, [])
