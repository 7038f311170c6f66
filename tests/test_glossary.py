"""The glossary: each word once, in order, with every kind of plugin and every verb."""

import re
from pathlib import Path

import house

from hardneg.registry.plugins import KINDS, list_plugins, load_plugin

ROOT = Path(__file__).parents[1]
WORDS, VERBS = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]
TERMS = re.findall(r"^### (.+)$", WORDS, re.MULTILINE)
OURS = ("hardneg", "hardneg-instructions", "hardneg-judge", "hardneg-reader")
SINGULAR = {"analyses": "Analysis", "batches": "Batch", "indexes": "Index", "losses": "Loss"}


def entry(term: str) -> str:
    return WORDS.split(f"\n### {term}\n")[1].split("\n### ")[0]


def test_each_word_stands_once_and_in_order() -> None:
    assert len(TERMS) > 90
    folded = [term.casefold().replace("_", " ") for term in TERMS]
    assert folded == sorted(set(folded))
    assert [term for term in TERMS if not entry(term).strip()] == []


def test_every_kind_of_plugin_is_a_word() -> None:
    assert re.findall(r"`([a-z]+)`", entry("Kind")) == list(KINDS)
    for kind in KINDS:
        text = " ".join(entry(SINGULAR.get(kind, kind[:-1].capitalize())).split())
        assert re.search(r"[Kk]ind of plugin|of the kind", text), kind


def test_every_verb_stands_there_with_what_it_makes() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `([a-z]+)` \| \w", VERBS, re.MULTILINE))
    installed = {
        each.name: load_plugin("stages", each.name).artifact_type
        for each in list_plugins("stages")
        if each.package in OURS
    }
    assert len(installed) >= 16
    assert list(rows) == sorted(rows)
    assert rows | installed == rows


def test_no_word_is_one_that_names_nothing() -> None:
    names = TERMS + re.findall(r"`([^`]+)`", WORDS + VERBS)
    parts = {part for name in names for part in re.split(r"\W|_", name.casefold())}
    empty = {form for word in house.EMPTY_WORDS for form in (word, f"{word}s")}
    assert parts & empty == set()


def test_contributors_and_the_architecture_lead_here() -> None:
    assert "(docs/glossary.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "(glossary.md)" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
