"""Who prints: what import-linter does not know."""

import ast
from collections.abc import Iterator

import house


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
    prints = {path: [*printing(tree)] for path, tree in house.TREES.items() if house.room(path) != "cli"}
    assert {path: lines for path, lines in prints.items() if lines} == {}
    assert [*printing(ast.parse("print(1)\nsys.stdout.write('')\nfrom sys import stdout\ntyper.echo('')"))]
