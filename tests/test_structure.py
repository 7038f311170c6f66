"""The package stays small and plain: sizes of functions, files and rooms, and helpers no longer than their use."""

import ast
from collections.abc import Iterator

import house
import pytest

LONG_FILES = {"analysis/projection.py", "plugin.py"}
"""Still to be divided; none may be added. `plugin.py` is a list."""


def test_functions_are_short() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": house.length(node)
        for path, tree in house.TREES.items()
        for node in house.functions(tree)
    }
    assert len(lengths) > 1000
    assert {name: lines for name, lines in lengths.items() if lines > 50} == {}


def test_files_hold_one_concept() -> None:
    assert {path for path, lines in house.LINES.items() if lines > 300} <= LONG_FILES


def test_helpers_of_one_use_become_fewer() -> None:
    assert house.over("helpers") == {}
    assert house.helpers(ast.parse("def _a():\n    return 1\nb = _a()\n")) == ["_a"]
    assert house.helpers(ast.parse("def _a():\n    return 1\nb = map(_a, [])\n")) == []


def test_rooms_do_not_grow_unseen() -> None:
    assert house.over("lines") == {}
    assert set(house.limits()) == set(house.counts())


def numbers(tree: ast.Module, name: str) -> Iterator[int]:
    """The numbers that a tree has as defaults of options and public parameters of such a name."""
    for node in ast.walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            values = [node.value]
            if isinstance(node.value, ast.Call):
                values = [*node.value.args[:1], *(key.value for key in node.value.keywords if key.arg == "default")]
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            last = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            pairs = [
                *zip(last, node.args.defaults, strict=True),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            ]
            values = [value for argument, value in pairs if argument.arg == name]
        yield from (each.value for each in values if isinstance(each, ast.Constant) and type(each.value) is int)


@pytest.mark.parametrize("name", ["seed", "depth", "constant"])
def test_a_default_is_one_number_in_one_file(name: str) -> None:
    stated = [number for tree in house.TREES.values() for number in numbers(tree, name)]
    assert {number for number in stated if stated.count(number) > 1} == set()
    assert set(numbers(ast.parse("depth: int = Field(default=3)\ndef f(*, depth=4): ...\n"), "depth")) == {3, 4}
