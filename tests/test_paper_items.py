"""Every table and figure of the five papers has a row in docs/methods: its command, or why there is none."""

import re
import shlex
from pathlib import Path

import pytest
from cli.commands import every_command

from hardneg.recipe.yaml_load import shipped_recipes

METHODS = Path(__file__).parents[1] / "docs" / "methods"
HEAD = "## The paper's tables and figures"


def numbered(tables: int, figures: int, version: str = "") -> set[str]:
    kinds = {"Table": tables, "Figure": figures}
    return {f"{version}{kind} {number}" for kind, count in kinds.items() for number in range(1, count + 1)}


ITEMS = {
    "adore": numbered(5, 6),
    "ance": numbered(9, 7) | numbered(7, 6, "v1 "),
    "rocketqa": numbered(7, 6),
    "cort": numbered(3, 2),
}


def rows(page: str) -> list[tuple[str, str]]:
    """Items and the last cell of each row."""
    text = (METHODS / f"{page}.md").read_text(encoding="utf-8").partition(HEAD)[2]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [(row[0], row[-1]) for row in cells[2:]]


def items(cell: str) -> set[str]:
    return set(re.findall(r"(?:v1 )?(?:Table|Figure) \d+", cell))


@pytest.mark.parametrize("page", ITEMS)
def test_every_item_has_a_row(page: str) -> None:
    found = set().union(*(items(cell) for cell, _ in rows(page)))
    assert found == ITEMS[page]


@pytest.mark.parametrize(("page", "item", "way"), [(page, *row) for page in ITEMS for row in rows(page)])
def test_every_row_has_a_command_or_a_reason(page: str, item: str, way: str) -> None:
    if not way.startswith("`"):
        assert re.match(r"none: \w+", way), item
        return
    arguments = shlex.split(way.strip("`"))[1:]
    known = every_command()
    words = next(words for count in (2, 1) if (words := tuple(arguments[:count])) in known)
    context = known[words].make_context(" ".join(words), arguments[len(words) :])
    if words[0] == "recipe":
        assert context.params["name"] in shipped_recipes(), item
