"""Forms with one JSON object a query: Tevatron's two, DPR's, FlagEmbedding's.

`tevatron-v1`, `dpr` and `flagembedding` carry texts; `tevatron-v2` ids alone, beside a corpus file. Documents of
`tevatron-v1`, `tevatron-v2` and `dpr` have ids and are read back by them, those of `flagembedding` by their texts; the
queries of `dpr` and `flagembedding` have no ids and are found by their texts.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hardneg.formats.corpus import Corpus
from hardneg.formats.export.export_rows import (
    Counts,
    ExportRow,
    JsonObject,
    TextLookup,
    WriteOptions,
    negatives_of,
    numbers,
    read_json_lines,
    read_json_list,
    texts,
    value,
    write_json_lines,
    write_json_list,
)
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Negatives


def write_tevatron_v1(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """JSON Lines: query_id, query, positive_passages, negative_passages, each passage with docid, title, text."""
    return write_json_lines(
        path,
        (
            {
                "query_id": row.query_id,
                "query": row.query,
                "positive_passages": [_passage(document) for document in row.positives],
                "negative_passages": [_passage(document) for document in row.negatives],
            }
            for row in _with_negatives(rows, counts)
        ),
    )


def _passage(document: Document) -> JsonObject:
    return {"docid": document.doc_id, "title": document.title, "text": document.text}


def read_tevatron_v1(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, by ids."""
    for where, row in read_json_lines(path):
        sides = [_ids(where, row, name, "docid") for name in ("positive_passages", "negative_passages")]
        yield from _by_id(where, row, sides, lookup)


def write_tevatron_v2(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """JSON Lines: query_id, query_text, positive_document_ids, negative_document_ids."""
    return write_json_lines(
        path,
        (
            {
                "query_id": row.query_id,
                "query_text": row.query,
                "positive_document_ids": [document.doc_id for document in row.positives],
                "negative_document_ids": [document.doc_id for document in row.negatives],
            }
            for row in _with_negatives(rows, counts)
        ),
    )


def read_tevatron_v2(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, by ids."""
    for where, row in read_json_lines(path):
        sides = [texts(where, row, name) for name in ("positive_document_ids", "negative_document_ids")]
        yield from _by_id(where, row, sides, lookup)


def write_tevatron_corpus(path: Path, corpus: Corpus) -> int:
    """The corpus beside `tevatron-v2`, JSON Lines: docid, and as `text` the title, a space and the text.

    The title has no field of its own because Tevatron's training reads `text` alone while its encoding adds a title.
    """
    rows = ({"docid": document.doc_id, "text": document.contents} for document in corpus.documents())
    return write_json_lines(path, rows)


def _by_id(where: str, row: JsonObject, sides: Sequence[list[str]], lookup: TextLookup) -> Iterator[Negatives]:
    if lookup.has_query(query_id := value(where, row, "query_id", str)):
        positives, negatives = (lookup.known(side) for side in sides)
        yield negatives_of(query_id, positives, negatives)


def write_dpr(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """One JSON list: question, answers (none), positive_ctxs, negative_ctxs (none), hard_negative_ctxs."""
    return write_json_list(
        path,
        (
            {
                "question": row.query,
                "answers": [],
                "positive_ctxs": _contexts(row.positives, row.positive_scores.tolist(), options),
                "negative_ctxs": [],
                "hard_negative_ctxs": _contexts(row.negatives, row.negative_scores.tolist(), options),
            }
            for row in _with_negatives(rows, counts)
        ),
    )


def _contexts(documents: Sequence[Document], scores: Sequence[float], options: WriteOptions) -> list[dict[str, Any]]:
    contexts: list[dict[str, Any]] = []
    for document, score in zip(documents, scores, strict=True):
        contexts.append({"title": document.title, "text": document.text, "passage_id": document.doc_id})
        if options.scores and math.isfinite(score):
            contexts[-1]["score"] = score
    return contexts


def read_dpr(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record an element, documents by ids, hard negatives before the other negatives; queries by their texts."""
    for where, row in read_json_list(path):
        query_id = lookup.query(value(where, row, "question", str))
        if query_id is not None:
            hard, other = (_objects(where, row, name) for name in ("hard_negative_ctxs", "negative_ctxs"))
            positives = _ids(where, row, "positive_ctxs", "passage_id")
            negatives = [value(where, item, "passage_id", str) for item in (*hard, *other)]
            listed = [item.get("score") for item in (*hard, *other)]
            scores = [float(score) if isinstance(score, int | float) else math.nan for score in listed]
            yield negatives_of(query_id, lookup.known(positives), lookup.known(negatives), scores)


def write_flagembedding(path: Path, rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> int:
    """JSON Lines: query, pos, neg (lists of texts); with scores pos_scores and neg_scores."""
    return write_json_lines(path, _flagembedding(rows, options, counts))


def _flagembedding(rows: Iterable[ExportRow], options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    for row in _with_negatives(rows, counts):
        sides = {"pos": [d.contents for d in row.positives], "neg": [d.contents for d in row.negatives]}
        record = {"query": row.query, **sides}
        if not options.scores:
            yield record
            continue
        scores = [row.positive_scores.tolist(), row.negative_scores.tolist()]
        if not all(map(math.isfinite, (*scores[0], *scores[1]))):
            counts["rows left out: a document has no score"] += 1
            continue
        yield {**record, "pos_scores": scores[0], "neg_scores": scores[1]}


def read_flagembedding(path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """One record a row, queries and documents by their texts."""
    for where, row in read_json_lines(path):
        query_id = lookup.query(value(where, row, "query", str))
        if query_id is not None:
            positives, negatives = texts(where, row, "pos"), texts(where, row, "neg")
            scored = row.get("neg_scores") is not None
            scores = numbers(where, row, "neg_scores", len(negatives)) if scored else None
            yield negatives_of(query_id, lookup.documents(positives), lookup.documents(negatives), scores)


def _with_negatives(rows: Iterable[ExportRow], counts: Counts) -> Iterator[ExportRow]:
    for row in rows:
        if row.negatives:
            yield row
        else:
            counts["queries left out: no negative"] += 1


def _objects(where: str, row: JsonObject, name: str) -> list[JsonObject]:
    objects: list[JsonObject] = value(where, row, name, list)
    if not all(isinstance(item, dict) for item in objects):
        raise DataError(f"{where}: field {name!r} must be a list of objects")
    return objects


def _ids(where: str, row: JsonObject, name: str, key: str) -> list[str]:
    return [value(where, item, key, str) for item in _objects(where, row, name)]
