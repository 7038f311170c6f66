"""Names: one word, one meaning."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import house

from hardneg.records import named_plugins
from hardneg.registry.plugins import KINDS, list_plugins

BESIDE = {
    f"{path.parent.name}/{path.name}": ast.parse(path.read_text("utf-8"))
    for path in (Path(house.__file__).parents[1] / "plugins").glob("*/src/**/*.py")
}
"""The modules of the packages in `plugins/`."""


def test_no_class_name_stands_twice() -> None:
    lines = defaultdict(list)
    for path, tree in house.TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                lines[node.name].append(f"{path}:{node.lineno}")
    assert len(lines) > 200
    assert {name: stands for name, stands in lines.items() if len(stands) > 1} == {}


NAMED = "records/named_plugins.py"
"""The one module in which the core names plugins."""
LOOKED_UP = "registry/plugins.py"
"""Names that a message helps with: of packages to install, and of other programs."""
ORDINARY = {
    "analyses": "candidates costs drift errors hardness matrix overlap projection refreshes",
    "datasets": "documents dpr hf pyserini ir-datasets",
    "engines": "local",
    "filters": "answers chat documents judged scores",
    "indexes": "binary flat fp16 multi-vector sparse",
    "losses": "triplet",
    "miners": "mixed random sampled",
}
"""Names of plugins that are words for other things too: forms, fields, numbers, columns."""
SETTINGS = {"analysis", "backend", "batches", "engine", "loss", "miner", "name", "plugin", "reranker"}
"""Keys after which a word names a plugin, whatever else it may mean."""


def plugins_named(tree: ast.Module, names: Iterable[str], ordinary: set[str]) -> Iterator[str]:
    """The names of plugins in a module; an ordinary word is one where it stands after a key of `SETTINGS`."""
    after = {
        id(value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value in SETTINGS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and (node.value not in ordinary or id(node) in after):
            yield from {node.value} & {*names}


def test_the_core_names_plugins_in_one_module() -> None:
    """A room names its own; verbs are what recipes are made of."""
    kinds = [kind for kind in KINDS if kind not in ("encoders", "stages")]
    rooms = defaultdict(set)
    for plugin in (each for kind in kinds for each in list_plugins(kind)):
        rooms[plugin.name].add(plugin.target.split(".")[1])
    ordinary = {name for words in ORDINARY.values() for name in words.split()}
    named = {
        (path, name)
        for path, tree in house.TREES.items()
        for name in plugins_named(tree, rooms, ordinary)
        if house.room(path) not in rooms[name]
    }
    assert {(path, name) for path, name in named if path not in (NAMED, LOOKED_UP)} == set()
    assert {value for name, value in vars(named_plugins).items() if name.isupper()} | ordinary <= {*rooms}
    tree = ast.parse('x = {"miner": "random"}\nMINER = "topk"\n')
    assert {*plugins_named(tree, rooms, ordinary)} == {"random", "topk"}
    fill = ast.parse('x = {"fill": "random"}')
    assert [*plugins_named(fill, rooms, ordinary)] == []


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
    "lucene/java.py",
    "--ink: ",
    "hardneg artifacts check",
    " --preset ",
    "hardneg browse",
    "hardneg evaluate --run",
    "pip install --force-reinstall",
)
"""Options of other programs, variables of a page, and whole commands to copy."""
