"""Every table and figure of the five papers has a row in docs/methods with a command, or a reason why there is none."""

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli.commands import every_command

from hardneg.recipes import find_recipe, load_recipe

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


def rows(page: str) -> list[tuple[str, str, str]]:
    """Return the item, the queries and the last cell of each row of a page."""
    text = (METHODS / f"{page}.md").read_text(encoding="utf-8").partition(HEAD)[2]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [(row[0], row[-2], row[-1]) for row in cells[2:]]


def items(cell: str) -> set[str]:
    return set(re.findall(r"(?:v1 )?(?:Table|Figure) \d+", cell))


@pytest.mark.parametrize("page", ITEMS)
def test_every_item_has_a_row(page: str) -> None:
    found = set().union(*(items(cell) for cell, _, _ in rows(page)))
    assert found == ITEMS[page]


WAYS = {(item, queries, way): None for page in ITEMS for item, queries, way in rows(page)}
"""Rows of all pages, each once."""


@pytest.mark.parametrize(("item", "queries", "way"), WAYS)
def test_every_row_has_a_command_that_parses_or_a_reason(item: str, queries: str, way: str) -> None:
    if not way.startswith("`"):
        assert re.match(r"none: \w+", way) and queries == "–", item
        return
    arguments = shlex.split(way.strip("`"))[1:]
    known = every_command()
    words = next(words for count in (2, 1) if (words := tuple(arguments[:count])) in known)
    context = known[words].make_context(" ".join(words), arguments[len(words) :])
    if words[0] == "recipe":
        assert context.params["preset"] == "paper", item


SPLITS = {
    "dev": "dev",
    "train": "train",
    "TREC 2019 DL": "test",
    "TREC 2020 DL": "test",
    "NQ test": "test",
    "TriviaQA test": "test",
}
DATASETS = {
    "TREC 2019 DL": ("mteb/msmarco", "msmarco-document/trec-dl-2019/judged"),
    "TREC 2020 DL": ("msmarco-passage/trec-dl-2020/judged",),
    "NQ test": ("nq",),
    "TriviaQA test": ("trivia",),
}
RUNS = {(way, queries): None for _, queries, way in WAYS if way.startswith("`hardneg recipe") and queries != "–"}
PLUGINS = ("cort-electra-dl20", "cort-electra-passage", "rocketqa-nq", "rocketqa-nq-table7", "ance-nq-reader")


@pytest.mark.parametrize(("way", "queries"), RUNS)
def test_the_preset_looks_at_the_queries_of_the_item(way: str, queries: str) -> None:
    words = shlex.split(way.strip("`"))
    if words[3] in PLUGINS:
        pytest.importorskip("hardneg_reader")
        pytest.importorskip("hardneg_electra")
    if words[3].endswith(("-nq", "-document", "-dl20")):
        pytest.importorskip("hardneg_datasets")
    settings = [value for flag, value in pairwise(words) if flag == "--set"]
    recipe = load_recipe(find_recipe(words[3]), "paper", settings)
    specs: list[Any] = [*recipe.stages.values()]
    seen = {spec.split for spec in specs if spec.stage in ("evaluate", "analyze", "read")}
    seen |= {"train" for spec in specs if getattr(spec, "watch", None)}
    loader: Any = recipe.plugins["dataset", "loader"]
    source = getattr(loader, "questions", "") or getattr(loader, "splits", {}).get("test") or loader.source
    for name in queries.split(", "):
        assert SPLITS[name] in seen, (way, seen)
        assert source in DATASETS.get(name, (source,)), (way, source)
