"""Names: one word, one meaning."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import house

BESIDE = {
    f"{path.parent.name}/{path.name}": ast.parse(path.read_text("utf-8"))
    for path in (Path(house.__file__).parents[1] / "plugins").glob("*/src/**/*.py")
}
"""The modules of the packages in `plugins/`."""


def flags(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, but for docstrings, that have a flag; values in them are written as `x`."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "x" for each in parts)
        if node not in docstrings and re.search(r"(?<![\w!-])--[a-z]", text):
            yield text


def test_flags_are_named_by_the_command_line_alone() -> None:
    """Below it errors name arguments, which a command renders as flags and a function as they are."""
    below = {path: tree for path, tree in house.TREES.items() if house.room(path) not in {"cli", "testing"}}
    lines = [f"{path}: {text}" for path, tree in {**below, **BESIDE}.items() for text in flags(tree)]
    lines = [line for line in lines if "/command.py: " not in line]  # the commands of packages
    assert [line for line in lines if not any(other in line for other in PROGRAMS)] == []
    for text in ("--split", "give `--split`", "'--split'", "(--split)", "split/--split"):
        assert [*flags(ast.parse(f"raise Error({text!r})"))] == [text]
    assert [*flags(ast.parse("raise Error(f'--{name} is wrong')"))] == ["--x is wrong"]
    assert [*flags(ast.parse('"`--split`"\nx = "a -- b, <!-- c -->, well--known"'))] == []


PROGRAMS = (
    "indexes/lucene.py",
    "--ink: ",
    "hardneg artifacts check",
    " --preset ",
    "hardneg browse",
    "hardneg evaluate --run",
    "pip install --force-reinstall",
    "report/content.py: ",
)
"""Options of other programs, variables of a page, and whole commands to copy."""
