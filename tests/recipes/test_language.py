"""Presets, `extends`, `--set` and functions: what each comes to."""

import contextlib
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given, strategies as st
from recipes.recipes import NEEDS_PAPERS
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import apply_settings, expand, find_recipe, merge, preset_names, read_tree, shipped_recipes
from hardneg.recipes.load import check_recipe, load_recipe
from hardneg.records import HardnegError, RecipeError, UsageError

HEAD = "dataset: pydocs\nmodel: packaged:all-MiniLM-L6-v2\n"


def write(folder: Path, name: str, **tree: object) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def tree_of(path: Path, preset: str | None = None, *settings: str) -> dict[str, Any]:
    found = expand(path, preset, settings)
    assert found.problems == []
    return found.tree


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "r.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    return list(caught.value.problems)


def test_the_preset_of_what_is_extended_lies_below_the_file_and_its_own_preset_above(tmp_path):
    paper = {"stages": {"x": {"k": 2, "l": 2, "m": 2}}}
    write(tmp_path, "a", stages={"x": {"k": 1, "l": 1, "m": 1}}, presets={"demo": {}, "paper": paper})
    own = {"paper": {"stages": {"x": {"m": 4}}}, "mine": {"seed": 7}}
    path = write(tmp_path, "b", extends="a.yaml", stages={"x": {"l": 3}}, presets=own)
    assert preset_names(path) == ["demo", "paper", "mine"]
    assert tree_of(path) == {"stages": {"x": {"k": 1, "l": 3, "m": 1}}}
    assert tree_of(path, "paper") == {"stages": {"x": {"k": 2, "l": 3, "m": 4}}}
    assert tree_of(path, "mine") == {"stages": {"x": {"k": 1, "l": 3, "m": 1}}, "seed": 7}
    last = write(tmp_path, "c", extends="b.yaml", presets={"demo": {"seed": 3}})
    assert tree_of(last)["seed"] == 3 and tree_of(last, "paper") == tree_of(path, "paper")


def test_a_preset_of_a_shipped_recipe_may_be_extended(tmp_path):
    mine = write(tmp_path, "mine", extends="star-passage:small", stages={"star": {"seed": 7}})
    small = tree_of(find_recipe("star-passage"), "small")
    small["stages"]["star"]["seed"] = 7
    assert tree_of(mine) == small and preset_names(mine) == []
    wrong = expand(write(tmp_path, "mine", extends="star-passage:smal"), None, ())
    assert "extends: presets: no preset 'smal'; did you mean 'small'" in wrong.problems[0]


@NEEDS_PAPERS
def test_a_function_may_be_extended(tmp_path):
    mine = write(tmp_path, "mine", extends="mining-depth", seed=7)
    assert tree_of(mine) == {**tree_of(find_recipe("mining-depth")), "seed": 7}


@pytest.mark.parametrize(
    ("extends", "told"),
    [
        ("b.yaml", "no recipe file"),
        ("star-pasage", "did you mean 'star-passage'"),
        ("a.yaml", "a cycle"),
        (3, "must be the name or path of one recipe"),
        (["bm25-passage", "star-passage"], "must be the name or path of one recipe"),
    ],
)
def test_mistakes_are_one_line(tmp_path, extends, told):
    with pytest.raises(RecipeError, match=told):
        expand(write(tmp_path, "a", extends=extends), None, ())


def test_a_null_is_a_value_and_takes_nothing_away(tmp_path):
    text = "stages: {i: {stage: encode}, t: {stage: search, index: i, depth: null}}"
    (only,) = problems(tmp_path, text)
    assert only.startswith("stages.t.depth: must be a whole number") and only.endswith(
        "; to unset it, remove it instead"
    )
    path = write(tmp_path, "a", stages={"t": {"stage": "train", "options": {"clip_norm": 1}}})
    below = write(tmp_path, "b", extends=path.name, stages={"t": {"options": {"clip_norm": None}}})
    assert tree_of(below)["stages"]["t"]["options"] == {"clip_norm": None}


def test_what_a_preset_cannot_be(tmp_path):
    with pytest.raises(RecipeError, match="presets: must be a mapping of names"):
        expand(write(tmp_path, "a", presets=3), None, ())
    assert "presets.demo: must be a mapping" in expand(write(tmp_path, "a", presets={"demo": 3}), None, ()).problems[0]


def test_another_plugin_or_verb_has_no_options_of_the_one_before_it():
    loss = {"loss": {"name": "lambda", "cut": 200}}
    assert merge(loss, {"loss": {"cut": 10}}) == {"loss": {"name": "lambda", "cut": 10}}
    assert merge(loss, {"loss": {"name": "nll", "temperature": 1.0}}) == {"loss": {"name": "nll", "temperature": 1.0}}
    assert merge({"x": {"stage": "train", "loss": "nll"}}, {"x": {"stage": "encode"}}) == {"x": {"stage": "encode"}}
    model = {"model": {"name": "a", "query_length": 32}}
    assert merge(model, {"model": {"name": "b"}}) == {"model": {"name": "b", "query_length": 32}}


def test_a_dataset_of_another_name_still_withholds_what_the_one_before_it_does():
    pydocs = {"dataset": {"name": "pydocs", "max_passages": 9, "withheld": {"unlabelled": 0.5}}}
    other = {"dataset": {"name": "hf", "source": "a/b"}}
    assert merge(pydocs, other)["dataset"] == {"name": "hf", "source": "a/b", "withheld": {"unlabelled": 0.5}}
    same = {"dataset": {"withheld": {"unlabelled": 0.1}}}
    assert merge(pydocs, same)["dataset"] == {"name": "pydocs", "max_passages": 9, "withheld": {"unlabelled": 0.1}}


@pytest.mark.parametrize(
    ("before", "later", "comes_to"),
    [
        ({"max_steps": 42, "stop_at": 9}, {"epochs": 3}, {"epochs": 3}),
        ({"epochs": 100, "stop_at": 9}, {"max_steps": 5}, {"max_steps": 5}),
        ({"max_steps": 42}, {"stop_at": 9}, {"max_steps": 42, "stop_at": 9}),
        ({"max_steps": 42}, {"max_steps": 50, "epochs": 2}, {"max_steps": 50, "epochs": 2}),
        ({"warmup_steps": 5}, {"warmup_ratio": 0.1}, {"warmup_ratio": 0.1}),
    ],
)
def test_how_long_a_training_is_replaces_how_long_it_was(before, later, comes_to):
    assert merge(before, later) == comes_to


@pytest.mark.parametrize("name", ["star-passage", pytest.param("adore-pq", marks=NEEDS_PAPERS)])
def test_what_show_prints_is_the_same_recipe(tmp_path, name):
    for preset in ("demo", "paper"):
        shown = CliRunner().invoke(app, ["recipe", "show", name, "--preset", preset])
        path = tmp_path / f"{preset}.yaml"
        path.write_text(shown.output, encoding="utf-8")
        assert load_recipe(path).stages == load_recipe(find_recipe(name), preset).stages
    wrong = CliRunner().invoke(app, ["recipe", "show", name, "--set", "stage=3", "--preset", "papre"])
    assert isinstance(wrong.exception, RecipeError) and "did you mean 'paper'" in str(wrong.exception)


@NEEDS_PAPERS
def test_parameters_of_a_function_are_set_by_name_and_the_rest_by_path():
    source = find_recipe("mining-depth")
    found = expand(source, None, ["depths=[20, 80]", "seed=7", "stages.scores.metrics=[mrr@10]"])
    assert found.problems == [] and found.tree["seed"] == 7
    assert [name for name in found.tree["stages"] if name.startswith("negatives-")] == ["negatives-20", "negatives-80"]
    assert found.tree["stages"]["scores"]["metrics"] == ["mrr@10"]
    (problem,) = expand(source, None, ["depths=many"]).problems
    assert problem.startswith("set depths: ")
    (problem,) = expand(source, "dmo", ()).problems
    assert problem.startswith("presets: no preset 'dmo'; did you mean 'demo'")


def test_the_function_of_the_page_returns_a_recipe():
    page = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"Any": Any, "Literal": Literal}
    exec(code, names)
    recipe = check_recipe(names["by_depth"](depths=[5]), Path("by-depth"))
    assert {"negatives-5", "star-5"} <= {*recipe.stages}


def test_the_shipped_recipes_are_found():
    assert "star-passage" in shipped_recipes()
    with pytest.raises(UsageError, match="did you mean 'star-passage'"):
        find_recipe("star-passages")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [\n", "line 3, column 1"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key 'a'"),
        ("- 1\n", "must contain a mapping"),
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("? [1, 2]\n: 3\n", "unhashable|mapping|key"),
    ],
)
def test_what_is_no_recipe_is_told_with_its_line(tmp_path, text, message):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
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
    assert problems == ["set bad: must have the form path.to.key=value"]
    assert tree["stages"]["s"] == {"loss": "star"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["a.b=1", "a={}"], "set a: would overwrite the earlier a.b; put a first, or remove one of them"),
        (["a={b: "], "set a: column 5: expected the node content"),
        (["a=[1, 2"], "set a: column 6: expected ',' or ']'"),
        (["stages.a.options={epochs: 1, max_steps: 2}"], "stages.a.options: has both epochs and max_steps"),
    ],
)
def test_settings_that_contradict_each_other_or_are_no_yaml(settings, told):
    (problem,) = apply_settings({}, settings)[1]
    assert problem.startswith(told)
    assert apply_settings({}, ["a={}", "a.b=1", "c=ask: now: x"]) == ({"a": {"b": 1}, "c": "ask: now: x"}, [])


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
    with pytest.raises(RecipeError, match="nested more than 50 levels deep"):
        read_tree(tmp_path / "r.yaml")
    assert apply_settings({}, [f"a={deep}"])[1] == ["set a: nested more than 50 levels deep"]
