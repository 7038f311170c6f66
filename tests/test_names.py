"""Names: one word, one meaning."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import house
import pytest

from hardneg.registry.plugins import list_plugins, load_plugin


@pytest.mark.parametrize("word", house.WORDS)
def test_names_are_the_nouns_of_things(word: str) -> None:
    assert house.over(word) == {}


def test_words_are_counted_in_every_name() -> None:
    source = "class FoundKinds:\n    def given(self, place, *, told=1):\n        self.places = made(asked=kindness)\n"
    assert house.words(ast.parse(source)) == Counter(
        {"found": 1, "kind": 1, "given": 1, "place": 2, "told": 1, "made": 1, "asked": 1}
    )


def test_fields_that_recipes_write_and_names_of_libraries_are_not_counted() -> None:
    source = "class Encode:\n    place: str\n    def run(self):\n        except_(FileNotFoundError, self.place)\n"
    assert house.words(ast.parse(source)) == Counter()
    stages = [load_plugin("stages", each.name).model_fields for each in list_plugins("stages")]
    assert all(any(name in fields for fields in stages) for name in house.RECIPE_FIELDS)


def test_no_class_name_stands_twice() -> None:
    lines = defaultdict(list)
    for path, tree in house.TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                lines[node.name].append(f"{path}:{node.lineno}")
    assert len(lines) > 200
    assert {name: stands for name, stands in lines.items() if len(stands) > 1} == {}


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
    lines = [f"{path}: {text}" for path, tree in below.items() for text in flags(tree)]
    assert [line for line in lines if not any(other in line for other in PROGRAMS)] == []
    for text in ("--split", "give `--split`", "'--split'", "(--split)", "split/--split"):
        assert [*flags(ast.parse(f"raise Error({text!r})"))] == [text]
    assert [*flags(ast.parse("raise Error(f'--{name} is wrong')"))] == ["--x is wrong"]
    assert [*flags(ast.parse('"`--split`"\nx = "a -- b, <!-- c -->, well--known"'))] == []


PROGRAMS = (
    "lucene/java.py",
    "--ink: ",
    "`doctor --measure`",
    "hardneg artifacts check",
    " --preset ",
    "hardneg browse",
    "hardneg evaluate --run",
    "pip install --force-reinstall",
)
"""Options of other programs, variables of a page, and whole commands to copy."""
