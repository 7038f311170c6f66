"""The package stays small and plain: sizes of functions, files and rooms, and helpers that say no more than their body.

`house.json` holds what each room may come to. A number is raised by hand, in the change that needs it.
"""

import ast
import json
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1] / "hardneg"
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
LINES = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in TREES}
MOST = json.loads(Path(__file__).with_name("house.json").read_text(encoding="utf-8"))
SHORT = 6
"""Lines of a helper that may as well stand where it is used."""

LONG_FILES = {"analysis/projection.py", "plugin.py"}
"""Still to be divided; none may be added. `plugin.py` is a list."""


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def used_once(tree: ast.Module) -> list[str]:
    """Private functions of one use and a few lines, which a decorator does not make more than a function."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    uses = Counter(names)
    short = [each for each in functions(tree) if length(each) <= SHORT and not each.decorator_list]
    private = [each.name for each in short if each.name.startswith("_") and not each.name.startswith("__")]
    return [name for name in private if uses[name] == 1]


def test_functions_are_short() -> None:
    found = {
        f"{path}:{node.lineno} {node.name}": length(node) for path, tree in TREES.items() for node in functions(tree)
    }
    assert len(found) > 1000
    assert {name: lines for name, lines in found.items() if lines > 50} == {}


def test_files_hold_one_concept() -> None:
    assert {path for path, lines in LINES.items() if lines > 300} <= LONG_FILES


def test_helpers_of_one_use_become_fewer() -> None:
    found = {path: names for path, tree in TREES.items() if (names := used_once(tree))}
    count = sum(map(len, found.values()))
    assert count <= MOST["short private functions of one use"], found
    assert used_once(ast.parse("def _a():\n    return 1\nb = _a()\n")) == ["_a"]


def test_rooms_do_not_grow_unseen() -> None:
    rooms: Counter[str] = Counter()
    for path, lines in LINES.items():
        room, _, inner = path.partition("/")
        rooms[room if inner else "files of the top level"] += lines
    assert {room: lines for room, lines in rooms.items() if lines > MOST["lines"].get(room, 0)} == {}
    assert set(MOST["lines"]) <= set(rooms)
