"""The forms of sentence-transformers' `mine_hard_negatives`: columns in the order that its trainer reads them.

`triplet`: anchor, positive, negative. `n-tuple`: anchor, positive, negative_1 to negative_n. `labeled-list`: anchor,
positive (a list, the positive first), labels. A query with several positives has rows for each of them. With scores
there is a last column `scores`, the positive's first; in `labeled-list` it stands in place of `labels`. They hold
texts, no ids.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from hardneg.formats.export.export_rows import (
    Counts,
    ExportRow,
    JsonObject,
    TextLookup,
    WriteOptions,
    negatives_of,
    numbers,
    read_json_lines,
    read_parquet,
    texts,
    value,
    write_json_lines,
    write_parquet,
)
from hardneg.records.errors import UsageError
from hardneg.records.types import Negatives

_TEXT, _SCORES = pa.string(), ("scores", pa.list_(pa.float32()))
_UNSCORED = "rows left out: a document has no score"


def write_triplets(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """One row for each positive and each negative."""
    columns = [("anchor", _TEXT), ("positive", _TEXT), ("negative", _TEXT), *([_SCORES] * options.scores)]
    return _write(path, _triplets(rows, options, counts), pa.schema(columns))


def _triplets(rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    for row, positive, positive_score in _pairs(rows):
        counts["queries left out: no negative"] += not row.negatives and positive is row.positives[0].contents
        for document, score in zip(row.negatives, row.negative_scores.tolist(), strict=True):
            scores = [positive_score, score]
            if _scored(scores, options, counts):
                record = {"anchor": row.query, "positive": positive, "negative": document.contents}
                yield {**record, "scores": scores} if options.scores else record


def write_n_tuples(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """One row for each positive; those with fewer negatives than requested are left out and counted.

    Raises:
        UsageError: the number of negatives is not set, or no query has so many.
    """
    if options.negatives is None or options.negatives < 1:
        raise UsageError("n-tuple: every row has the same number of negatives; set it")
    names = [f"negative_{i + 1}" for i in range(options.negatives)]
    columns = [(name, _TEXT) for name in ("anchor", "positive", *names)] + [_SCORES] * options.scores
    return _write(path, _n_tuples(rows, names, options, counts), pa.schema(columns))


def _n_tuples(
    rows: Iterable[ExportRow], names: list[str], options: WriteOptions, counts: Counts
) -> Iterator[JsonObject]:
    for row, positive, positive_score in _pairs(rows):
        if len(row.negatives) < len(names):
            counts[f"rows left out: fewer than {len(names)} negatives"] += 1
            continue
        scores = [positive_score, *row.negative_scores.tolist()]
        if _scored(scores, options, counts):
            documents = [document.contents for document in row.negatives]
            record = {"anchor": row.query, "positive": positive, **dict(zip(names, documents, strict=True))}
            yield {**record, "scores": scores} if options.scores else record


def write_labeled_lists(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """One row for each positive, with as many negatives as there are."""
    last = _SCORES if options.scores else ("labels", pa.list_(pa.int64()))
    schema = pa.schema([("anchor", _TEXT), ("positive", pa.list_(_TEXT)), last])
    return _write(path, _labeled_lists(rows, options, counts), schema)


def _labeled_lists(rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    for row, positive, positive_score in _pairs(rows):
        if not row.negatives:
            counts["rows left out: no negative"] += 1
            continue
        documents = [positive, *(document.contents for document in row.negatives)]
        scores = [positive_score, *row.negative_scores.tolist()]
        if not options.scores:
            yield {"anchor": row.query, "positive": documents, "labels": [1] + [0] * len(row.negatives)}
        elif _scored(scores, options, counts):
            yield {"anchor": row.query, "positive": documents, "scores": scores}


def _pairs(rows: Iterable[ExportRow]) -> Iterator[tuple[ExportRow, str, float]]:
    for row in rows:
        for document, score in zip(row.positives, row.positive_scores.tolist(), strict=True):
            yield row, document.contents, score


def _scored(scores: list[float], options: WriteOptions, counts: Counts) -> bool:
    """Whether a row can be written: with scores, all of them must be there."""
    missing = options.scores and not np.isfinite(scores).all()
    counts[_UNSCORED] += missing
    return not missing


def _write(path: Path, records: Iterator[JsonObject], schema: pa.Schema) -> int:
    if path.suffix == ".parquet":
        return write_parquet(path, records, schema)
    return write_json_lines(path, records)


def read_triplets(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, documents found by their texts."""
    return _read(path, lookup, _triplet_documents)


def read_n_tuples(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, documents found by their texts."""
    return _read(path, lookup, _n_tuple_documents)


def read_labeled_lists(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, documents found by their texts; those with a label above 0 are positives, else the first is."""
    return _read(path, lookup, _labeled_list_documents)


_Documents = tuple[list[str], list[str], list[float] | None]


def _read(path: Path, lookup: TextLookup, split: Callable[[str, JsonObject], _Documents]) -> Iterator[Negatives]:
    for where, row in read_parquet(path) if path.suffix == ".parquet" else read_json_lines(path):
        positives, negatives, scores = split(where, row)
        query_id = lookup.query(value(where, row, "anchor", str))
        if query_id is not None:
            doc_ids = lookup.documents([*positives, *negatives])
            yield negatives_of(query_id, doc_ids[: len(positives)], doc_ids[len(positives) :], scores)


def _triplet_documents(where: str, row: JsonObject) -> _Documents:
    texts_ = [value(where, row, "positive", str)], [value(where, row, "negative", str)]
    return *texts_, _scores(where, row, 1)


def _n_tuple_documents(where: str, row: JsonObject) -> _Documents:
    names = [name for name in row if name.startswith("negative_")]
    negatives = [value(where, row, name, str) for name in names]
    return [value(where, row, "positive", str)], negatives, _scores(where, row, len(negatives))


def _labeled_list_documents(where: str, row: JsonObject) -> _Documents:
    documents = texts(where, row, "positive")
    if "labels" not in row:
        return documents[:1], documents[1:], _scores(where, row, len(documents) - 1)
    labels = numbers(where, row, "labels", len(documents))
    pairs = list(zip(documents, labels, strict=True))
    return [text for text, label in pairs if label > 0], [text for text, label in pairs if not label > 0], None


def _scores(where: str, row: JsonObject, negatives: int) -> list[float] | None:
    if row.get("scores") is None:
        return None
    return numbers(where, row, "scores", negatives + 1)[1:]
