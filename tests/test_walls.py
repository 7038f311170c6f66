"""How far doors and commands reach past the Python functions, and who prints: what import-linter does not know."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

import house
import pytest

OPEN = {"records", "api", "functions"}
"""What a door may import: records, and the Python functions."""
TO_COMMANDS = {*OPEN, "diagnosis", "verbs", "analysis", "recipe", "store", "report", "doors"}
PAST = {"browse": 17, "hub": 23, "mteb": 27, "trainer": 27, "pyserini": 14}
"""Imports of each door that reach further; these numbers may only fall."""
COMMANDS_PAST = 50


@cache
def graph() -> Any:
    import grimp

    return grimp.build_graph("hardneg")


def reaching(room: str, allowed: set[str]) -> set[tuple[str, str]]:
    """The imports of the modules in a room that end in none of the allowed rooms, nor in its own."""
    found, allowed = graph(), {*allowed, room.split(".")[0]}
    sources = found.find_descendants(f"hardneg.{room}")
    pairs = {(source, name) for source in sources for name in found.find_modules_directly_imported_by(source)}
    return {(source, name) for source, name in pairs if name != "hardneg" and name.split(".")[1] not in allowed}


@pytest.mark.parametrize("door", PAST)
def test_doors_reach_past_the_functions_less_and_less(door: str) -> None:
    assert len(reaching(f"doors.{door}", OPEN)) == PAST[door]


def test_commands_reach_past_the_functions_less_and_less() -> None:
    assert len(reaching("cli", TO_COMMANDS)) == COMMANDS_PAST


def printing(tree: ast.Module) -> Iterator[str]:
    """Where a module prints, or has the standard output at hand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "pprint", "typer.echo", "click.echo"):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.__stdout__"):
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module in ("sys", "pprint", "builtins"):
            yield from {each.name for each in node.names} & {"stdout", "pprint", "print"}


def test_only_commands_print() -> None:
    """And the process beside a trainer writes into the pipe between the two, in one function."""
    prints = {path: [*printing(tree)] for path, tree in house.TREES.items() if house.room(path) != "cli"}
    assert {path: lines for path, lines in prints.items() if lines} == {
        "training/refresh/inferencer.py": ["sys.stdout", "sys.stdout"]
    }
    assert [*printing(ast.parse("print(1)\nsys.stdout.write('')\nfrom sys import stdout\ntyper.echo('')"))]
