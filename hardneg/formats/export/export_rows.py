"""One query with the texts of its documents, for writing; the lookup of texts in the corpus, for reading.

Files of such rows are JSON Lines, one JSON list, or Parquet: written whole or not at all, read as a stream.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import find_equal, hash_texts, normalise
from hardneg.formats.json_rows import json_row, read_array
from hardneg.formats.queries import Queries
from hardneg.formats.text_lines import read_lines
from hardneg.records.errors import ArtifactError, DataError
from hardneg.records.types import Document, Negatives
from hardneg.store.atomic_write import replacing

_QUERIES = 256
_SHARED = "texts that several queries have, read as the first of them"
_NO_QUERY = "rows left out: their query is not in the split"

Counts = Counter[str]
PositiveScores = Callable[[Negatives], NDArray[np.float32]]
JsonObject = Mapping[str, Any]
_ROWS = 1024


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One query with its documents: scores are float32, as many as documents, nan where there is none."""

    query_id: str
    query: str
    positives: Sequence[Document]
    negatives: Sequence[Document]
    positive_scores: NDArray[np.float32]
    negative_scores: NDArray[np.float32]


@dataclass(frozen=True)
class WriteOptions:
    """negatives: how many to write a query at most, the first ones; None is all. scores: write scores too.

    positive_scores: gives float32 [positives of the query]; where it is None they have no score.
    """

    negatives: int | None = None
    scores: bool = False
    positive_scores: PositiveScores | None = None


def gather(
    negatives: Iterable[Negatives], queries: Queries, corpus: Corpus, options: WriteOptions, counts: Counts
) -> Iterator[ExportRow]:
    """The rows with their texts, in the order of `negatives`, a few hundred queries at a time.

    Raises:
        DataError: a query or a document is unknown: the negatives are of another collection.
    """
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    items = iter(negatives)
    while block := list(islice(items, _QUERIES)):
        doc_ids = list(
            dict.fromkeys(i for item in block for i in (*item.positives, *item.negatives[: options.negatives]))
        )
        rows = corpus.known_rows(doc_ids, "the negatives' document", "give the corpus they are of")
        documents = dict(zip(doc_ids, corpus.documents_at(rows), strict=True))
        for item in block:
            if item.query_id not in texts:
                raise DataError(f"query {item.query_id!r} of the negatives is not in the split; name their split")
            if not item.positives:
                counts["queries left out: no positive"] += 1
                continue
            count_beyond(item, options.negatives, counts)
            yield _row(item, texts[item.query_id], documents, options)


def count_beyond(item: Negatives, negatives: int | None, counts: Counts) -> None:
    """Counts those of a query's negatives that are not written."""
    if negatives is not None and len(item.negatives) > negatives:
        counts[f"negatives left out: beyond the first {negatives} of a query"] += len(item.negatives) - negatives


def _row(item: Negatives, query: str, documents: Mapping[str, Document], options: WriteOptions) -> ExportRow:
    known = options.positive_scores
    return ExportRow(
        item.query_id,
        query,
        [documents[doc_id] for doc_id in item.positives],
        [documents[doc_id] for doc_id in item.negatives[: options.negatives]],
        known(item) if known else np.full(len(item.positives), np.nan, np.float32),
        np.asarray(item.scores, np.float32)[: options.negatives],
    )


@dataclass
class TextLookup:
    """Finds queries and documents by their texts; misses are counted in `counts`.

    Of equal texts the first in the collection is taken.
    """

    queries: Queries
    corpus: Corpus
    counts: Counts = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._ids = frozenset(self.queries.query_ids)
        self._by_text: dict[str, str] = {}
        self._shared: set[str] = set()
        for query_id, text in self.queries:
            if self._by_text.setdefault(normalise(text), query_id) != query_id:
                self._shared.add(normalise(text))

    def has_query(self, query_id: str) -> bool:
        """Whether the split has this query."""
        self.counts[_NO_QUERY] += query_id not in self._ids
        return query_id in self._ids

    def query(self, text: str) -> str | None:
        """The id of the first query with this text."""
        text = normalise(text)
        query_id = self._by_text.get(text)
        self.counts[_SHARED] += text in self._shared
        self._shared.discard(text)
        self.counts[_NO_QUERY] += query_id is None
        return query_id

    def documents(self, texts: Sequence[str]) -> list[str | None]:
        """For each text the id of the first document with these contents, white space aside."""
        wanted = [normalise(text) for text in texts]
        first, end = find_equal(self.corpus.content_hash, hash_texts(wanted), self.corpus.content_order)
        matches = list[str | None]()
        for text, low, high in zip(wanted, first, end, strict=True):
            rows = np.sort(self.corpus.content_order[low:high]).tolist()
            same = (row for row in rows if normalise(self.corpus.contents(np.array([row]))[0]) == text)
            matches.append(next((str(self.corpus.doc_ids[row]) for row in same), None))
        self.counts["documents left out: their text is not in the corpus"] += matches.count(None)
        return matches

    def known(self, doc_ids: Sequence[str]) -> list[str | None]:
        """The ids themselves, None where the corpus has no such document."""
        rows = self.corpus.rows(doc_ids).tolist()
        in_corpus = [doc_id if row >= 0 else None for doc_id, row in zip(doc_ids, rows, strict=True)]
        self.counts["documents left out: their id is not in the corpus"] += in_corpus.count(None)
        return in_corpus


def negatives_of(
    query_id: str,
    positives: Sequence[str | None],
    negatives: Sequence[str | None],
    scores: Sequence[float] | None = None,
) -> Negatives:
    """A record of the matched documents; ids that are None are skipped with their scores."""
    values = np.full(len(negatives), np.nan, np.float32) if scores is None else np.asarray(scores, np.float32)
    kept = [number for number, doc_id in enumerate(negatives) if doc_id is not None]
    doc_ids = [doc_id for doc_id in negatives if doc_id is not None]
    return Negatives(query_id, [i for i in positives if i is not None], doc_ids, values[kept])


def merged(items: Iterable[Negatives]) -> Iterator[Negatives]:
    """One record a query from any number of them, each document once; holds all ids, no texts."""
    positives: dict[str, dict[str, None]] = {}
    negatives: dict[str, dict[str, float]] = {}
    for item in items:
        positives.setdefault(item.query_id, {}).update(dict.fromkeys(item.positives))
        scored = negatives.setdefault(item.query_id, {})
        for doc_id, score in zip(item.negatives, item.scores.tolist(), strict=True):
            scored.setdefault(doc_id, score)
    for query_id, known in positives.items():
        scored = {i: score for i, score in negatives[query_id].items() if i not in known}
        yield Negatives(query_id, list(known), list(scored), np.array(list(scored.values()), np.float32))


def write_json_lines(path: Path, rows: Iterable[JsonObject]) -> int:
    """Writes one JSON object a line; returns how many."""
    count = 0
    with _writing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            count += 1
        check_rows(count)
    return count


def write_json_list(path: Path, rows: Iterable[JsonObject]) -> int:
    """Writes one JSON list, one element a line; returns how many."""
    count = 0
    with _writing(path) as file:
        file.write(b"[")
        for row in rows:
            file.write((b",\n" if count else b"\n") + json.dumps(row, ensure_ascii=False).encode())
            count += 1
        file.write(b"\n]\n")
        check_rows(count)
    return count


def write_parquet(path: Path, rows: Iterable[JsonObject], schema: pa.Schema) -> int:
    """Writes a Parquet file, a thousand rows at a time; returns how many."""
    stream, count = iter(rows), 0
    with _writing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while block := list(islice(stream, _ROWS)):
            writer.write_table(pa.Table.from_pylist(block, schema))
            count += len(block)
        check_rows(count)
    return count


class NoRows(DataError):
    """Nothing of what was to be written can be a row."""


def check_rows(count: int) -> None:
    """Raises NoRows where there is none."""
    if not count:
        raise NoRows("there is no row to write")


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_json_lines(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The location (`file:line`) and the object of each line."""
    for number, line in read_lines(path):
        yield f"{path}:{number}", json_row(path, number, line)


def read_json_list(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The location (`file:line`) and the object of each element of one JSON list, as a stream."""
    return ((f"{path}:{number}", row) for number, row in read_array(path))


def read_parquet(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The location and the values of each row."""
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (OSError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: not a Parquet file: {reason}") from error


def value(where: str, row: JsonObject, name: str, type_: type) -> Any:
    """A field of a row that must be there and of one type."""
    if not isinstance(content := row.get(name), type_):
        raise DataError(f"{where}: field {name!r} must be of type {type_.__name__}, but is {content!r:.60}")
    return content


def texts(where: str, row: JsonObject, name: str) -> list[str]:
    """A field of a row that must be a list of strings."""
    items: list[str] = value(where, row, name, list)
    if not all(isinstance(item, str) for item in items):
        raise DataError(f"{where}: field {name!r} must be a list of strings")
    return items


def numbers(where: str, row: JsonObject, name: str, count: int) -> list[float]:
    """A field of a row that must be a list of `count` numbers."""
    items: list[float] = value(where, row, name, list)
    if not all(isinstance(item, int | float) for item in items):
        raise DataError(f"{where}: field {name!r} must be a list of numbers")
    if len(items) != count:
        raise DataError(f"{where}: {len(items)} {name} for {count} documents")
    return items
