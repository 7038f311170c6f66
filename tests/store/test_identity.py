"""What of options is in a key, and that one module alone knows."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, Field

from hardneg.store.identity import FREE, LATER, in_words_of_keys, options_in_key, plugin_identity
from hardneg.training.options import RerankerOptions, TrainOptions

ROOT = Path(__file__).parents[2]
RULE = "hardneg/store/identity.py"
MARKS = {"later", "free", "in_identity", "json_schema_extra"}
DECLARES = {*MARKS, "key"}


class Verb(BaseModel):
    depth: int = 100
    device: str = Field(default="cpu", json_schema_extra=FREE)
    fill_to: int | None = Field(default=None, json_schema_extra=LATER)
    run: str = "bm25"


@dataclass(frozen=True)
class Plugin:
    depth: int = 100
    url: str = "here"
    sizes: tuple[int, int] = (1, 2)
    weights: dict[str, float] = field(default_factory=dict)
    version: ClassVar[int] = 3
    free: ClassVar[frozenset[str]] = frozenset({"url"})
    later: ClassVar[frozenset[str]] = frozenset({"sizes"})


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (Verb(), {"depth": 100}),
        (Verb(depth=100, device="cuda", fill_to=5), {"depth": 100, "fill_to": 5}),
        (Plugin(), {"depth": 100, "weights": {}}),
        (Plugin(url="there", sizes=(1, 3)), {"depth": 100, "sizes": [1, 3], "weights": {}}),
    ],
)
def test_free_options_never_count_and_later_ones_with_another_value_alone(options, counted):
    assert options_in_key(options, {"run"}) == counted


def test_a_plugin_counts_by_its_name_version_and_options():
    identity = {"name": "chosen", "version": 3, "options": {"depth": 7}}
    assert plugin_identity("chosen", Plugin(7), ["weights"]) == identity


def test_options_of_training_have_other_words_in_keys():
    given = TrainOptions(iterate_negatives=True, false_negative_mask=False)
    plain = TrainOptions().identity()
    assert TrainOptions(chunk=8).identity() == plain | {"chunk": 8}
    assert given.identity() == plain | {"order": "consecutive", "mask": "none"}
    assert in_words_of_keys({"seed": 1, "iterate_negatives": True}) == {"seed": 1, "order": "consecutive"}


def test_a_default_is_that_of_the_class():
    assert RerankerOptions().identity()["negatives_per_query"] == 4
    assert not {"chunk", "tf32", "checkpoint_every"} & {*RerankerOptions().identity()}


@cache
def trees() -> dict[str, ast.Module]:
    paths = [*(ROOT / "hardneg").rglob("*.py"), *(ROOT / "plugins").glob("*/src/**/*.py")]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def test_one_module_alone_reads_the_marks():
    found = {path: list(reads(tree)) for path, tree in trees().items()}
    assert len(found) > 400 and {"later", "free", "json_schema_extra"} <= {*found.pop(RULE)}
    assert {path: marks for path, marks in found.items() if marks} == {}


DEFAULTS = {"default", "default_factory", "get_default", "model_fields_set", "exclude_defaults", "exclude_unset"}
READ_DEFAULTS = {
    "hardneg/cli/": "options of commands",
    "hardneg/api/analyzing.py": "arguments of an analysis for a function",
    "hardneg/api/argument_values.py": "None for an argument that is left out",
    "hardneg/api/arguments.py": "signatures of functions",
    "hardneg/registry/plugins.py": "the help of a plugin",
    "hardneg/recipe/run_folder.py": "a run's metadata for others",
    "hardneg/recipe/systems.py": "a mistake of a recipe that says a thing twice",
    "hardneg/encoders/families/adapters/adapter_spec.py": "a mistake of options beside a trained adapter",
    "hardneg/encoders/spec.py": "a mistake of a spec that sets what a family has not",
}
"""Who reads or compares defaults beside the rule, and what for: nothing of it enters a key."""


def test_no_other_module_leaves_defaults_out_of_what_enters_a_key():
    found = {path: list(compared(tree)) for path, tree in trees().items() if path != RULE}
    assert {path: lines for path, lines in found.items() if lines and not path.startswith((*READ_DEFAULTS,))} == {}
    rules = ["x.model_dump(exclude_defaults=True)", "[f for f in fields(x) if x.y != f.default]"]
    rules += ["[n for n in x if getattr(x, n) != getattr(Options, n)]", "[n for n in x if y != vars(type(x)())[n]]"]
    assert all([*compared(ast.parse(rule))] for rule in rules)
    assert not [*compared(ast.parse("x.model_dump(exclude={'a'}) != y.first and getattr(x, n) != 3"))]


def compared(tree: ast.AST) -> Iterator[str]:
    """Where a module reads defaults of fields, or compares a value with one of a class or of a plain instance."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = [ast.unparse(each) for each in (node.left, *node.comparators)]
            yield from (text for text in sides if re.search(r"getattr\((cls|[A-Z]\w*), \w+\)|type\(\w+\)\(\)", text))
        elif isinstance(node, ast.Attribute):
            yield from {node.attr} & DEFAULTS
        elif isinstance(node, ast.keyword):
            yield from {node.arg} & {"exclude_defaults", "exclude_unset"}


def reads(tree: ast.AST) -> Iterator[str]:
    """The marks that a module reads: as attributes, by `getattr`, or as a `FREE` and `LATER` that marks no field."""
    declared = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in DECLARES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in MARKS and "disk_usage" not in ast.unparse(node.value):
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            yield from MARKS & {getattr(each, "value", "") for each in node.args[1:2]}
        elif isinstance(node, ast.Constant) and node.value == "in_identity":
            yield node.value
        elif isinstance(node, ast.Name) and node.id in ("FREE", "LATER") and id(node) not in declared:
            yield node.id
