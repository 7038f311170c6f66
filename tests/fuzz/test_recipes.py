"""Any recipe is planned, or told to be wrong."""

from functools import reduce

import pytest
import yaml
from fuzz.fuzzing import NASTY, fuzzed, mangled, read_or_one_line, texts, values
from hypothesis import given, strategies as st
from recipes.recipes import small_collection, small_tree

from hardneg.recipes import load_recipe, lock_content, make_plan

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(12))
YAML = [
    *(BOMB, "a: &a [*a]\n", "dataset: 2001-99-99\n", "stages: 5\n", "stages: [{a: 1}]\n", "presets: 3\n"),
    *("presets: {demo: 3}\n", "? {a: 1}\n: 2\n", "title: !!binary aGVsbG8=\n", "title: !!set {a, b}\n"),
    *('title: "\\ud800"\n', 'dataset: "beir:a\\0b"\n', "seed: 0x" + "f" * 5000 + "\n", "[" * 3000),
]


KEYS = ["dataset", "dataset.source", "model.name", "stages.static.miner.depth", "stages.a b", "seed", "for"]
KEYS += ["defaults.train", "extends", "presets", "presets.demo", "stages.star", "stages.star.system"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("fuzzed")
    return folder, small_tree(small_collection(folder / "data"), tiny_model)


def planned(path, preset=None, settings=()):
    recipe = load_recipe(path, preset, settings)
    plan = make_plan(recipe, [])
    yaml.safe_dump(lock_content(plan), allow_unicode=True).encode()
    for name in plan.steps:
        assert (path.parent / "runs" / name).resolve().parent == path.parent / "runs" and len(name.encode()) < 220


def branches(tree, path=()):
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from branches(value, (*path, key))


@st.composite
def mutated(draw, tree):
    """A valid tree in which up to three values or keys are others."""
    tree = yaml.safe_load(yaml.safe_dump(tree))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(list(branches(tree))[1:]))
        parent = reduce(lambda branch, key: branch[key], path, tree)
        if isinstance(parent, dict) and draw(st.booleans()):
            parent[draw(texts)] = parent.pop(last)
        else:
            parent[last] = draw(values)
    return tree


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_yaml_that_is_no_recipe(tmp_path, text):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    assert not read_or_one_line(lambda: planned(path), lines=99)


@fuzzed
@given(data=st.data())
def test_mutated_recipes(place, data):
    folder, tree = place
    text = yaml.safe_dump(data.draw(mutated(tree)), allow_unicode=False)
    path = folder / "r.yaml"
    path.write_bytes(data.draw(mangled(st.just(text.encode("utf-8", "surrogatepass")))))
    read_or_one_line(lambda: planned(path), lines=99)


@fuzzed
@given(
    key=st.sampled_from(KEYS) | texts,
    value=st.sampled_from([*NASTY, *YAML[1:4]]) | values.map(lambda item: yaml.safe_dump(item)),
    preset=st.none() | texts,
)
def test_settings(place, key, value, preset):
    folder, tree = place
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(tree))
    read_or_one_line(lambda: planned(path, preset, [f"{key}={value}"]), lines=99)
