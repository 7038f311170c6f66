"""A dataset as a function is given it: a name, a folder, tables or dicts, as a recipe names it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import name_of
from hardneg.api.beir_folder import WholeCollection, write_beir
from hardneg.api.content_store import keep_content
from hardneg.api.memory_collection import MemoryCollection
from hardneg.api.table_collection import BeirTables, PairTables, by_split, is_table
from hardneg.formats.text_lines import find_file
from hardneg.records.errors import UsageError
from hardneg.store.artifacts import Store

Dataset = str | Path | Mapping[str, Any] | Any
"""`beir:FOLDER` or a plugin's name; a BEIR folder; a `datasets.Dataset` of pairs, by split or alone; or corpus, queries
and qrels as such tables or as dicts."""

_FORMS = "give beir:FOLDER or another plugin's name, a folder in BEIR's form, a datasets.Dataset, or a dict"


def named_dataset(given: Dataset, store: Store) -> str:
    """The dataset as a recipe names it; one in memory is written into the store, under its content.

    Raises:
        UsageError: it is none of the forms that a dataset may have.
        DataError: one in memory has a mistake; each is told with its place.
    """
    if isinstance(given, os.PathLike) or (isinstance(given, str) and _is_folder(given)):
        return f"beir:{os.fspath(given)}"
    if isinstance(given, str):
        return name_of("dataset", given)
    collection = collection_of(given)
    made = keep_content(store, "given-collection", lambda folder: write_beir(collection, folder))
    return f"beir:{made.path}"


def collection_of(given: Any) -> WholeCollection:
    """The collection that tables or dicts are. Raises as `named_dataset`."""
    if is_table(given):
        return PairTables(by_split(given))
    if not isinstance(given, Mapping) or not given:
        raise UsageError(f"dataset: cannot read {given!r:.60}; {_FORMS}")
    if all(map(is_table, given.values())) and not {"corpus", "queries", "qrels"} & set(given):
        return PairTables(by_split(given))
    corpus = given.get("corpus")
    return BeirTables.of(given) if is_table(corpus) or is_table(_first(corpus)) else MemoryCollection.of(given)


def split_of(given: Dataset, wanted: str | None, usual: str) -> str:
    """The split that is wanted; else the usual one, or the only one of a dataset in memory."""
    if wanted is not None or isinstance(given, str | os.PathLike):
        return wanted or usual
    known = collection_of(given).splits()
    return known[0] if len(known) == 1 else usual


def _is_folder(given: str) -> bool:
    try:
        return find_file(Path(given), "corpus.jsonl") is not None
    except (OSError, ValueError) as error:
        raise UsageError(f"dataset: {given!r:.60} is no name ({getattr(error, 'strerror', error)}); {_FORMS}") from None


def _first(given: Any) -> Any:
    return next(iter(given.values()), None) if isinstance(given, Mapping) else None
