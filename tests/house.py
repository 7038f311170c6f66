"""The package's modules as trees, for the tests that read them."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "hardneg"
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
TOP = "files of the top level"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def room(path: str) -> str:
    first, _, inner = path.partition("/")
    return first if inner else TOP
