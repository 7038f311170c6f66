"""What is counted in each room of the package, and what it may come to (`house.json`).

`python tests/house.py [ROOM ...]` lowers the limits to today's counts, lines to the next fifty. A limit is raised
by hand, in the change that needs it; those of words are never raised.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "hardneg"
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
LINES = {path: len((PACKAGE / path).read_text(encoding="utf-8").splitlines()) for path in TREES}
LIMITS = Path(__file__).with_name("house.json")
TOP = "files of the top level"
EMPTY_WORDS = ("asked", "found", "given", "made", "place", "told")
"""Words that name nothing: the noun of the thing stands in their place (hits, folder, options)."""

WORDS = (*EMPTY_WORDS, "kind")
"""`kind` names the kind of a plugin. What else has it is not ours: a mask's `kind` in recipes, a parameter's."""

RECIPE_FIELDS = ("place",)
"""Fields of stages that recipes write, as `place:` of `encode`: a class has them by that name."""

LIBRARY_ERROR = "NotFoundError"
"""How Python and libraries name errors, such as FileNotFoundError."""

SHORT = 6
"""Lines of a helper that may as well stand where it is used."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Counts = dict[str, dict[str, int]]


def functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: Function) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def room(path: str) -> str:
    first, _, inner = path.partition("/")
    return first if inner else TOP


def helpers(tree: ast.Module) -> list[str]:
    """Private functions of a few lines that are called once: they may as well stand there.

    One that is passed by its name stays, as do those with a decorator, and methods that another class has too.
    """
    defined = Counter(each.name for each in functions(tree))
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    uses += Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    called = {ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.Call)}
    short = [each for each in functions(tree) if length(each) <= SHORT and not each.decorator_list]
    private = [each.name for each in short if each.name.startswith("_") and not each.name.startswith("__")]
    return [name for name in private if uses[name] == defined[name] == 1 and name in called]


def identifiers(tree: ast.Module) -> Iterator[str]:
    """All names that are chosen here: of variables, parameters, attributes, functions and classes."""
    lines = [line for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for line in node.body]
    fields = {line.target for line in lines if isinstance(line, ast.AnnAssign)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name.endswith(LIBRARY_ERROR):
                continue
            case ast.Attribute(attr=name) if name in RECIPE_FIELDS:
                continue
            case ast.Name(id=name) if name in RECIPE_FIELDS and node in fields:
                continue
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def words(tree: ast.Module) -> Counter[str]:
    """How often each of `WORDS` is a part of an identifier, its plural too."""
    parts: Counter[str] = Counter()
    for name in identifiers(tree):
        plain = set(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_"))
        parts.update(word for word in WORDS if {word, f"{word}s"} & plain)
    return parts


@cache
def counts() -> Counts:
    """Of each room: its lines, its short private functions of one use, and the words in its names."""
    rooms: dict[str, Counter[str]] = {}
    for path, tree in TREES.items():
        rooms.setdefault(room(path), Counter()).update(
            {"lines": LINES[path], "helpers": len(helpers(tree)), **words(tree)}
        )
    order = ("lines", "helpers", *WORDS)
    return {name: {what: rooms[name][what] for what in order} for name in sorted(rooms)}


def limits() -> Counts:
    written: Counts = json.loads(LIMITS.read_text(encoding="utf-8"))
    return written


def over(what: str) -> dict[str, str]:
    """Rooms above their limit, and by how much."""
    most = {room: limits().get(room, {}).get(what, 0) for room in counts()}
    return {room: f"{n[what]} > {most[room]}" for room, n in counts().items() if n[what] > most[room]}


def lower(chosen: list[str]) -> None:
    now, most = counts(), limits()
    for name in chosen or list(now):
        reached = now[name] | {"lines": -(-now[name]["lines"] // 50) * 50}
        most[name] = {what: min(number, most.get(name, {}).get(what, number)) for what, number in reached.items()}
    kept = {name: most[name] for name in sorted(most) if name in now}
    LIMITS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    lower(sys.argv[1:])
