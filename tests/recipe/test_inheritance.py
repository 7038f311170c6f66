from pathlib import Path

import pytest
import yaml
from hardneg.recipe.inheritance import apply_preset, laid, lay_under, read_layers, read_whole_tree, without_removed

from hardneg.recipe.yaml_load import find_recipe
from hardneg.records.errors import RecipeError


def write(folder: Path, name: str, **tree: object) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_a_recipe_says_what_it_changes(tmp_path):
    write(tmp_path, "a", seed=1, stages={"x": {"k": 1}, "y": {"k": 2}})
    write(tmp_path, "b", stages={"x": {"l": 3}, "z": {}})
    path = write(tmp_path, "c", extends=["a.yaml", "b.yaml"], stages={"y": None, "x": {"k": 9}})
    assert without_removed(read_whole_tree(path)) == {"seed": 1, "stages": {"x": {"k": 9, "l": 3}, "z": {}}}


def test_presets_are_merged_with_the_nulls_that_they_hold(tmp_path):
    write(tmp_path, "a", stages={"x": {"k": 1}, "y": {}}, presets={"demo": {}, "paper": {"stages": {"y": None}}})
    path = write(tmp_path, "b", extends="a.yaml", presets={"paper": {"stages": {"x": {"k": None, "l": 2}}}})
    tree, _, problems = apply_preset(read_whole_tree(path), "paper")
    assert (without_removed(tree), problems) == ({"stages": {"x": {"l": 2}}}, [])


def test_a_null_in_a_preset_takes_away_what_the_preset_before_it_added(tmp_path):
    """Also where the recipe without its preset has nothing of it."""
    write(tmp_path, "a", presets={"paper": {"stages": {"x": {"loss": {"name": "ranknet", "pairs": "own"}}}}})
    loss = {"name": "infonce", "pairs": None, "negatives": "all"}
    path = write(tmp_path, "b", extends="a.yaml", presets={"paper": {"stages": {"x": {"loss": loss}}}})
    tree, _, problems = apply_preset(read_whole_tree(path), "paper")
    assert without_removed(tree) == {"stages": {"x": {"loss": {"name": "infonce", "negatives": "all"}}}}
    assert not problems


def test_a_preset_of_a_shipped_recipe_may_be_extended(tmp_path):
    star = read_whole_tree(write(tmp_path, "mine", extends="star-passage:small", stages={"star": {"seed": 7}}))
    small, _, _ = apply_preset(read_whole_tree(find_recipe("star-passage")), "small")
    small["stages"]["star"]["seed"] = 7
    assert {**star, "presets": None} == {**small, "presets": None}
    assert set(star["presets"]) == {"demo", "paper"}
    with pytest.raises(RecipeError, match="no preset 'smal'; did you mean 'small'"):
        read_whole_tree(write(tmp_path, "mine", extends="star-passage:smal"))


def test_a_shipped_recipe_may_be_extended(tmp_path):
    tree = read_whole_tree(write(tmp_path, "mine", extends="star-passage", seed=7))
    assert tree["seed"] == 7 and "star" in tree["stages"] and "paper" in tree["presets"]


def test_what_several_extend_is_laid_once_and_before_them(tmp_path):
    write(tmp_path, "base", seed=1, title="base", stages={"x": {"k": 1}}, presets={"paper": {"seed": 9}})
    write(tmp_path, "a", extends="base.yaml", seed=2, stages={"a": {}}, presets={"paper": {"title": "a"}})
    write(tmp_path, "b", extends="base.yaml", stages={"b": {}})
    path = write(tmp_path, "c", extends=["a.yaml", "b.yaml"])
    whole = read_whole_tree(path)
    assert (whole["seed"], list(whole["stages"])) == (2, ["x", "a", "b"])
    assert whole["presets"] == {"paper": {"seed": 9, "title": "a"}}
    turned = read_whole_tree(write(tmp_path, "d", extends=["b.yaml", "a.yaml", "base.yaml"]))
    assert (turned["seed"], list(turned["stages"])) == (2, ["x", "b", "a"])


def test_what_has_no_such_preset_is_laid_once_beside_a_preset_of_what_extends_it(tmp_path):
    """star-passage has the preset `small`, and bm25-passage, which it extends, has not."""
    write(tmp_path, "mine", extends="bm25-passage", seed=5)
    path = write(tmp_path, "both", extends=["mine.yaml", "star-passage:small"])
    whole = read_whole_tree(path)
    assert (whole["seed"], "small" in whole["presets"], "star" in whole["stages"]) == (5, False, True)


def test_a_recipe_and_a_preset_of_it_are_two(tmp_path):
    path = write(tmp_path, "mine", extends=["star-passage", "star-passage:small"])
    assert set(read_whole_tree(path)["presets"]) == {"demo", "small", "paper"}
    assert "start-dev" in read_whole_tree(path)["stages"]


@pytest.mark.parametrize(
    ("extends", "told"),
    [
        (["bm25-passage", "star-passage", "bm25-passage"], "bm25-passage stands here twice; each is laid once"),
        ("b.yaml", "no recipe file"),
        ("star-pasage", "did you mean 'star-passage'"),
        ("a.yaml", "a circle"),
        (3, "must be a recipe's name"),
        ([["a"]], "must be a recipe's name"),
    ],
)
def test_mistakes_are_one_line(tmp_path, extends, told):
    with pytest.raises(RecipeError, match=told):
        read_whole_tree(write(tmp_path, "a", extends=extends))


def test_a_dataset_of_another_name_has_none_of_the_options_before_it(tmp_path):
    paper = {"dataset": {"name": "hf", "source": "a/b", "revision": "c"}}
    write(tmp_path, "a", dataset={"name": "pydocs", "withheld": {"unlabelled": 0.5}}, presets={"paper": paper})
    other = write(tmp_path, "b", extends="a.yaml", presets={"paper": {"dataset": {"name": "dpr", "source": "d"}}})
    same = write(tmp_path, "c", extends="a.yaml", presets={"paper": {"dataset": {"withheld": {"unlabelled": 0.1}}}})
    withheld = {"withheld": {"unlabelled": 0.5}}
    assert apply_preset(read_whole_tree(other), "paper")[0]["dataset"] == {"name": "dpr", "source": "d", **withheld}
    tree = apply_preset(read_whole_tree(same), "paper")[0]
    assert tree["dataset"] == paper["dataset"] | {"withheld": {"unlabelled": 0.1}}


def test_a_preset_may_extend_others_than_the_recipe_does(tmp_path):
    """So that a paper's setting need not delete what the demo has."""
    write(tmp_path, "demo", stages={"x": {}, "start": {}})
    write(tmp_path, "big", stages={"x": {"k": 2}}, presets={"paper": {"seed": 9}})
    paper = {"extends": "big.yaml", "stages": {"y": {"l": 1}}}
    write(tmp_path, "a", extends="demo.yaml", stages={"y": {}}, presets={"demo": {}, "small": {}, "paper": paper})
    child = write(tmp_path, "b", extends="a.yaml", stages={"z": {}})
    whole = read_whole_tree(child)
    for preset, seed in (("paper", 9), ("small", None), ("demo", None)):
        tree, _, problems = apply_preset(laid(read_layers(child, preset)), preset)
        x = {"x": {"k": 2}} if seed else {"x": {}, "start": {}}
        assert (tree["stages"], tree.get("seed"), problems) == ({**x, "y": {"l": 1} if seed else {}, "z": {}}, seed, [])
        again, _, _ = apply_preset(whole, preset)
        assert (without_removed(again)["stages"], again.get("seed")) == (tree["stages"], seed)
    own = write(tmp_path, "own", extends="a.yaml", presets={"mine": {"seed": 3}})
    assert set(laid(read_layers(own, "mine"))["stages"]) == {"x", "start", "y"}
    wrong = write(tmp_path, "c", extends="a.yaml", presets={"paper": {"extends": 7}})
    with pytest.raises(RecipeError, match="must be a recipe's name"):
        read_layers(wrong, "paper")


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
def test_how_long_a_training_is_replaces_how_long_it_was(tmp_path, before, later, comes_to):
    write(tmp_path, "a", stages={"t": before}, presets={"demo": {}})
    extended = write(tmp_path, "b", extends="a.yaml", stages={"t": later})
    assert without_removed(read_whole_tree(extended))["stages"]["t"] == comes_to
    preset = write(tmp_path, "c", extends="a.yaml", presets={"p": {"stages": {"t": later}}})
    chosen, _, _ = apply_preset(read_whole_tree(preset), "p")
    assert without_removed(chosen)["stages"]["t"] == comes_to
    assert lay_under(before, later) == comes_to
