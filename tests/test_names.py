"""Names: one word, one meaning."""

import ast
import re
from collections import Counter, defaultdict

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


def test_flags_are_named_by_the_command_line_alone() -> None:
    """Below it errors name arguments, which a command renders as flags and a function as they are."""
    doors = {"cli", "doors", "testing"}
    flags = []
    for path, tree in house.TREES.items():
        if house.room(path) in doors:
            continue
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in alone else ""
            if isinstance(text, str) and re.search(r"(^|[\s(])--[a-z]", text):
                flags.append(f"{path}: {text}")
    assert [line for line in flags if not any(other in line for other in PROGRAMS)] == []


PROGRAMS = (
    "lucene/java.py",
    "--ink: ",
    "`doctor --measure`",
    "hardneg artifacts check",
    " --preset ",
    "hardneg browse",
)
"""Options of other programs, variables of a page, and whole commands to copy."""
