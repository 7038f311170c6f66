"""Outside `encoders/` and `indexes/` nothing asks which family of encoders it has, only what one can do."""

import ast
from collections.abc import Iterator

from house import PACKAGE, TREES

from hardneg.registry.plugins import plugin_names

FAMILIES = "encoders/families/"
FOLDERS = {path.parent.name for path in (PACKAGE / FAMILIES).glob("*/__init__.py")} - {"adapters"}
HERE = ("encoders/", "indexes/", "plugin.py")
FORMS = {"SparseRows"}
"""What texts are encoded into: that much a format may ask, and a contract of indexes."""


def classes() -> set[str]:
    """Kinds, their representations, and encoders of one kind alone."""
    return {
        node.name
        for path, tree in TREES.items()
        if path.startswith(FAMILIES) and path.split("/")[2] in FOLDERS
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def questions(tree: ast.AST, known: set[str], names: set[str]) -> Iterator[str]:
    """Where a module imports a kind's own modules, asks for its class, or compares with its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hardneg.encoders.families."):
            if (node.module or "").split(".")[3] in FOLDERS:
                yield f"line {node.lineno}: imports {node.module}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            yield from (f"line {node.lineno}: asks for {name}" for name in sorted(asked & known))
        elif isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "schedule":
            continue  # of negatives, one of which is called static
        elif isinstance(node, ast.Compare | ast.MatchValue):
            parts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            yield from (f"line {node.lineno}: compares with {name!r}" for name in sorted(parts & names, key=str))


def test_no_consumer_asks_which_kind_it_has() -> None:
    assert {"dense", "sparse", "static"} <= FOLDERS and "TermWeights" in classes()
    names, found = {*plugin_names("encoders")}, {}
    for path, tree in TREES.items():
        known = classes() | (set() if path.startswith(("formats/", "testing/")) else FORMS)
        if not path.startswith(HERE) and (asked := list(questions(tree, known, names))):
            found[path] = asked
    assert found == {}
