"""The size of the house: bounds that only fall."""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import house
import pytest
from refused_collections import beir

import hardneg.plugin
from hardneg.registry import KINDS, load_plugin, plugin_names
from hardneg.stages import StageSpec

ROOT = Path(__file__).parents[1]
BOUNDS = {
    "lines of hardneg": 38841,
    "lines of hardneg and plugins": 59060,
    "lines of tests": 47783,
    "lines of docs": 5502,
    "rooms": 20,
    "lines of a room": 4217,
    "files of a room": 16,
    "imports, in a thousand lines": 58,
    "lines of a function": 50,
    "parameters of a private function": 6,
    "public names": 81,
    "kinds of plugins": 10,
    "hooks of a stage": 10,
    "files of a walk": 29,
    "functions of a walk": 150,
}
"""Each change lowers what it can; none is raised."""


def count(pattern: str) -> int:
    """Lines of all files of a pattern."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.glob(pattern))


def measured() -> dict[str, int]:
    for name in plugin_names("stages"):
        load_plugin("stages", name)
    lines = {path: count(f"hardneg/{path}") for path in house.TREES}
    rooms, files = Counter[str](), Counter(map(house.room, lines))
    for path, number in lines.items():
        rooms[house.room(path)] += number
    nodes = [node for tree in house.TREES.values() for node in ast.walk(tree)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    functions = [function for tree in house.TREES.values() for function in house.functions(tree)]
    private = [function.args for function in functions if function.name.startswith("_") and function.name[1] != "_"]
    del rooms[house.TOP], files[house.TOP]
    core = sum(lines.values())
    return {
        "lines of hardneg": core,
        "lines of hardneg and plugins": core + count("plugins/*/src/**/*.py"),
        "lines of tests": count("tests/**/*.py") + count("plugins/*/tests/**/*.py"),
        "lines of docs": count("docs/**/*.md"),
        "rooms": len(rooms),
        "lines of a room": max(rooms.values()),
        "files of a room": max(files.values()),
        "imports, in a thousand lines": 1000 * sum(map(span, imports)) // core,
        "lines of a function": max(map(span, functions)),
        "parameters of a private function": max(len(each.args) + len(each.kwonlyargs) for each in private),
        "public names": len(hardneg.plugin.__all__),
        "kinds of plugins": len(KINDS),
        "hooks of a stage": len({name for stage in subclasses(StageSpec) for name in vars(stage)} & _METHODS),
    }


_METHODS = {name for name, value in vars(StageSpec).items() if name[0] != "_" and isinstance(value, FunctionType)}


def subclasses(of: type) -> Iterator[type]:
    for each in of.__subclasses__():
        yield from (each, *subclasses(each))


def span(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def test_the_house_stays_within_its_bounds() -> None:
    assert {name: (number, BOUNDS[name]) for name, number in measured().items() if number > BOUNDS[name]} == {}


def bounds_of(text: str) -> dict[str, int]:
    (found,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BOUNDS"
    ]
    return dict(found)


def raised(older: dict[str, int], newer: dict[str, int]) -> list[str]:
    return [name for name, most in older.items() if newer.get(name, most + 1) > most]


def test_no_bound_was_ever_raised() -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        commits = git("log", "--first-parent", "--format=%H", "--", "tests/test_house.py").split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no history is here")
    versions = [bounds_of(git("show", f"{commit}:tests/test_house.py")) for commit in reversed(commits)]
    assert [found for older, newer in pairwise([*versions, BOUNDS]) if (found := raised(older, newer))] == []
    assert raised({"a": 2, "b": 2, "c": 2}, {"a": 2, "b": 3}) == ["b", "c"]


WALK = """
import hardneg, sys
from hardneg.cli.main import app
entered, here = set(), hardneg.__path__[0] + "/"
def enter(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(here) and code.co_flags & 1 and code.co_name[0] != "<":
        entered.add((code.co_filename, code.co_name))
sys.setprofile(enter)
try:
    app(sys.argv[1:])
finally:
    sys.setprofile(None)
    print(len({file for file, _ in entered}), len(entered))
"""


def test_a_search_with_everything_in_the_store_enters_few_functions(tmp_path: Path, tiny_model: Path) -> None:
    beir(tmp_path / "data")
    given = ["--dataset", "beir:data", "--split", "test", "--model", str(tiny_model), "--output", "run.trec.gz"]
    for program in (["-m", "hardneg"], ["-c", WALK]):
        command, settings = [sys.executable, *program, "search", *given], os.environ | {"HARDNEG_STORE": "store"}
        told = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, check=True).stdout
    files, functions = map(int, told.split()[-2:])
    assert files <= BOUNDS["files of a walk"] and functions <= BOUNDS["functions of a walk"], (files, functions)
