"""A dataset as a function is given it: a name, a folder, tables or dicts, as a recipe names it."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from hardneg.api.argument_values import name_of
from hardneg.api.arguments import Dataset
from hardneg.api.content_store import keep_content
from hardneg.api.memory_collection import MemoryCollection
from hardneg.api.table_collection import BeirTables, PairTables, by_split, is_table
from hardneg.formats.text_lines import find_file
from hardneg.records.errors import DataError, UsageError
from hardneg.records.named_plugins import BEIR
from hardneg.records.types import Collection, Query
from hardneg.store.artifacts import Store

_FORMS = "give beir:FOLDER or another plugin's name, a folder in BEIR's form, a datasets.Dataset, or a dict"


class WholeCollection(Collection, Protocol):
    """A collection that gives its queries as they were given too, be they judged or not."""

    def all_queries(self) -> Iterator[Query]:
        """The queries of all splits in their order; one may come twice."""


def named_dataset(dataset: Dataset, store: Store) -> str:
    """The dataset as a recipe names it; one in memory is written into the store, under its content.

    Raises:
        UsageError: it is none of the forms that a dataset may have.
        DataError: one in memory has a mistake; each is told with its place.
    """
    if isinstance(dataset, os.PathLike) or (isinstance(dataset, str) and _is_folder(dataset)):
        return f"{BEIR}:{os.fspath(dataset)}"
    if isinstance(dataset, str):
        return name_of("dataset", dataset)
    collection = collection_of(dataset)
    artifact = keep_content(store, "given-collection", lambda folder: write_beir(collection, folder))
    return f"{BEIR}:{artifact.path}"


def collection_of(dataset: Any) -> WholeCollection:
    """The collection that tables or dicts are. Raises as `named_dataset`."""
    if is_table(dataset):
        return PairTables(by_split(dataset))
    if not isinstance(dataset, Mapping) or not dataset:
        raise UsageError(f"dataset: cannot read {dataset!r:.60}; {_FORMS}")
    if all(map(is_table, dataset.values())) and not {"corpus", "queries", "qrels"} & set(dataset):
        return PairTables(by_split(dataset))
    corpus = dataset.get("corpus")
    part = next(iter(corpus.values()), None) if isinstance(corpus, Mapping) else corpus
    return BeirTables.of(dataset) if is_table(part) else MemoryCollection.of(dataset)


def split_of(dataset: Dataset, wanted: str | None, usual: str) -> str:
    """The split that is wanted; else the usual one, or the only one of a dataset in memory."""
    if wanted is not None or isinstance(dataset, str | os.PathLike):
        return wanted or usual
    known = collection_of(dataset).splits()
    return known[0] if len(known) == 1 else usual


def _is_folder(dataset: str) -> bool:
    try:
        return find_file(Path(dataset), "corpus.jsonl") is not None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"dataset: {dataset!r:.60} is no name ({getattr(error, 'strerror', error)}); {_FORMS}"
        ) from None


def write_beir(collection: WholeCollection, folder: Path) -> None:
    """Writes `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` into an empty folder, streaming.

    Raises:
        DataError: the collection has a mistake; or two splits give a query other texts.
    """
    (folder / "qrels").mkdir()
    documents = ({"_id": each.doc_id, "title": each.title, "text": each.text} for each in collection.documents())
    _write(folder / "corpus.jsonl", (_line(row) for row in documents))
    _write(
        folder / "queries.jsonl", (_line({"_id": each.query_id, "text": each.text}) for each in _queries(collection))
    )
    for split in collection.splits():
        judged = (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in collection.qrels(split))
        _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore\n"], judged)


def _queries(collection: WholeCollection) -> Iterator[Query]:
    """All queries, each once."""
    texts: dict[str, str] = {}
    for query in collection.all_queries():
        if query.query_id not in texts:
            texts[query.query_id] = query.text
            yield query
        elif texts[query.query_id] != query.text:
            raise DataError(f"dataset: query {query.query_id!r} has other texts in other splits; give it one text")


def _line(row: dict[str, str]) -> str:
    line = json.dumps(row, ensure_ascii=False) + "\n"
    try:
        line.encode()
    except UnicodeEncodeError as error:
        problem = f"the text of {row['_id']!r:.60} has half a character, {error.object[error.start]!r}"
        raise DataError(f"dataset: {problem}, which no file can hold; mend or leave it out") from error
    return line


def _write(path: Path, *parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.writelines(part)
