"""A collection written as a folder in BEIR's form: equal collections have equal bytes."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from hardneg.records.errors import DataError
from hardneg.records.types import Collection, Query


class WholeCollection(Collection, Protocol):
    """A collection that gives its queries as they were given too, be they judged or not."""

    def all_queries(self) -> Iterator[Query]:
        """The queries of all splits in their order; one may come twice."""


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
