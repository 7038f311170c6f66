"""Names: one word, one meaning."""

import ast
import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "hardneg"


def test_no_class_name_is_given_twice() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_flags_are_named_by_the_command_line_alone():
    """Below it errors name arguments, which a command renders as flags and a function as they are."""
    doors = {"cli", "doors", "testing"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] in doors:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in said else ""
            if isinstance(text, str) and re.search(r"(^|[\s(])--[a-z]", text):
                found.append(f"{path.relative_to(PACKAGE)}: {text}")
    assert [line for line in found if not any(other in line for other in PROGRAMS)] == []


PROGRAMS = (
    "lucene/java.py",
    "--ink: ",
    "`doctor --measure`",
    "hardneg artifacts check",
    " --preset ",
    "hardneg browse",
)
"""Options of other programs, variables of a page, and whole commands to copy."""
