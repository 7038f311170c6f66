"""The forms of negatives that other training programs read: how rows are written, and read back to ids.

`triplet`, `n-tuple` and `labeled-list` are those of sentence-transformers' `mine_hard_negatives`, columns in the order
that its trainer reads them; a query with several positives has rows for each of them, and with scores there is a last
column `scores`, the positive's first. `tevatron-v1`, `dpr` and `flagembedding` are one object a query with its texts;
`tevatron-v2` has ids alone, beside a corpus file. Documents of Tevatron's forms and of `dpr` are read back by their
ids, others by their texts; queries by their texts, but for Tevatron's.

Files are JSON Lines, one JSON list, or Parquet: written whole or not at all, read as a stream.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import isfinite, nan
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from hardneg.formats.corpus import Corpus
from hardneg.formats.form_names import OWN, check_form
from hardneg.formats.hash_index import find_equal, hash_texts, normalise
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.queries import Queries
from hardneg.formats.text_lines import json_row, read_array, read_lines
from hardneg.records import ArtifactError, DataError, Document, Negatives, UsageError
from hardneg.store import replacing

_QUERIES, _ROWS = 256, 1024
_SHARED = "texts that several queries have, read as the first of them"
_NO_QUERY = "rows left out: their query is not in the split"

Counts = Counter[str]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class WriteOptions:
    """negatives: how many to write a query at most, the first ones; None is all. scores: write scores too.

    positive_scores: gives float32 [positives of the query]; where it is None they have no score.
    """

    negatives: int | None = None
    scores: bool = False
    positive_scores: Callable[[Negatives], NDArray[np.float32]] | None = None


class _Texts(NamedTuple):
    """One query with its documents and their scores, nan where there is none."""

    query_id: str
    query: str
    positives: list[Document]
    negatives: list[Document]
    positive_scores: list[float]
    negative_scores: list[float]

    def pairs(self) -> Iterator[tuple[str, float]]:
        return zip((document.contents for document in self.positives), self.positive_scores, strict=True)


def write_form(
    form: str, path: Path, negatives: Iterable[Negatives], queries: Queries, corpus: Corpus, options: WriteOptions
) -> dict[str, int]:
    """Writes negatives in a form, streaming, whole or not at all; returns `rows` and what was left out, by reason.

    Raises:
        UsageError: the form is unknown, or the file's ending is not one of its own; n-tuples need a number.
        DataError: a query or document is unknown, or no query can have a row.
    """
    check_form(form, path)
    if form == "n-tuple" and not options.negatives:
        raise UsageError("n-tuple: every row has the same number of negatives; set it")
    counts: Counts = Counter()
    first = _first(negatives, options.negatives, form, counts)
    if form == OWN:
        rows = write_negatives(path, first)
    else:
        gathered = _gather(first, queries, corpus, options, counts)
        records = (record for row in gathered for record in _FORMS[form].records(row, options, counts))
        rows = _write(path, records, form, counts)
    return {"rows": rows, **+counts}


def _first(negatives: Iterable[Negatives], limit: int | None, form: str, counts: Counts) -> Iterator[Negatives]:
    """The first `limit` negatives of each query."""
    some = 0
    for item in negatives:
        some += bool(item.negatives)
        counts["queries without a negative"] += form == OWN and not item.negatives
        if limit is not None and item.positives and len(item.negatives) > limit:
            counts[f"negatives left out: beyond the first {limit} of a query"] += len(item.negatives) - limit
        yield Negatives(item.query_id, item.positives, item.negatives[:limit], item.scores[:limit], item.dropped)
    if form == OWN:
        _check_rows(some, form, counts)


def _check_rows(rows: int, form: str, counts: Counts) -> None:
    if not rows:
        lost = ": " * bool(+counts) + ", ".join(f"{reason} ({count:,})" for reason, count in (+counts).items())
        raise DataError(f"form {form}: there is no row to write{lost}; take more negatives, or write fewer")


def _gather(
    negatives: Iterable[Negatives], queries: Queries, corpus: Corpus, options: WriteOptions, counts: Counts
) -> Iterator[_Texts]:
    """The rows with their texts, in the order of `negatives`, a few hundred queries at a time."""
    texts, items = dict(queries), iter(negatives)
    while block := list(islice(items, _QUERIES)):
        doc_ids = list(dict.fromkeys(doc_id for item in block for doc_id in (*item.positives, *item.negatives)))
        rows = corpus.known_rows(doc_ids, "the negatives' document", "give the corpus they are of")
        documents = dict(zip(doc_ids, corpus.documents_at(rows), strict=True))
        for item in block:
            if item.query_id not in texts:
                raise DataError(f"query {item.query_id!r} of the negatives is not in the split; name their split")
            if not (item.positives and item.negatives):
                counts[f"queries left out: no {'negative' if item.positives else 'positive'}"] += 1
                continue
            positives, others = ([documents[name] for name in ids] for ids in (item.positives, item.negatives))
            known = options.positive_scores
            scores = known(item).tolist() if known else [nan] * len(positives)
            others_scores = np.asarray(item.scores, np.float32).tolist()
            yield _Texts(item.query_id, texts[item.query_id], positives, others, scores, others_scores)


def write_tevatron_corpus(path: Path, corpus: Corpus) -> int:
    """The corpus beside `tevatron-v2`, JSON Lines: docid, and as `text` the title, a space and the text.

    The title has no field of its own because Tevatron's training reads `text` alone while its encoding adds a title.
    """
    rows = ({"docid": document.doc_id, "text": document.contents} for document in corpus.documents())
    return _write(path, rows, "tevatron-v2", Counter())


def _write(path: Path, rows: Iterator[JsonObject], form: str, counts: Counts) -> int:
    count = 0
    try:
        with replacing(path) as file:
            if path.suffix == ".parquet":
                count = _write_parquet(file, rows)
            else:
                start, between, end = (b"[\n", b",\n", b"\n]\n") if path.suffix == ".json" else (b"", b"\n", b"\n")
                file.write(start)
                for count, row in enumerate(rows, 1):
                    file.write((between if count > 1 else b"") + json.dumps(row, ensure_ascii=False).encode())
                file.write(end)
            _check_rows(count, form, counts)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from error
    return count


def _write_parquet(file: IO[bytes], rows: Iterator[JsonObject]) -> int:
    count, types = 0, {str: pa.string(), int: pa.int64(), float: pa.float32()}
    first = next(rows, None)
    if first is None:
        return 0
    fields = {
        name: pa.list_(types[type(value[0])]) if isinstance(value, list) else types[type(value)]
        for name, value in first.items()
    }
    rows = chain([first], rows)
    with parquet.ParquetWriter(file, pa.schema(fields)) as writer:
        while block := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(block, writer.schema))
            count += len(block)
    return count


class TextLookup:
    """Finds queries and documents by their texts; misses are counted in `counts`.

    Of equal texts the first in the collection is taken.
    """

    def __init__(self, queries: Queries, corpus: Corpus) -> None:
        self.corpus, self.counts = corpus, Counts()
        self._ids = frozenset(queries.query_ids)
        self._by_text, self._shared = dict[str, str](), set[str]()
        for query_id, text in queries:
            if self._by_text.setdefault(normalise(text), query_id) != query_id:
                self._shared.add(normalise(text))

    def query(self, name: str, by_id: bool) -> str | None:
        """The id of the query of this id, or of the first with this text; None where the split has none."""
        text = normalise(name)
        query_id = (name if name in self._ids else None) if by_id else self._by_text.get(text)
        if not by_id and text in self._shared:
            self.counts[_SHARED] += 1
            self._shared.discard(text)
        self.counts[_NO_QUERY] += query_id is None
        return query_id

    def documents(self, names: Sequence[str], by_id: bool) -> list[str | None]:
        """For each id itself, or for each text the id of the first document with these contents, white space aside."""
        if by_id:
            known = self.corpus.rows(names).tolist()
            matches = [doc_id if row >= 0 else None for doc_id, row in zip(names, known, strict=True)]
        else:
            wanted, matches = [normalise(text) for text in names], list[str | None]()
            first, end = find_equal(self.corpus.content_hash, hash_texts(wanted), self.corpus.content_order)
            for text, low, high in zip(wanted, first, end, strict=True):
                rows = np.sort(self.corpus.content_order[low:high]).tolist()
                same = (row for row in rows if normalise(self.corpus.contents(np.array([row]))[0]) == text)
                matches.append(next((str(self.corpus.doc_ids[row]) for row in same), None))
        missing = f"documents left out: their {'id' if by_id else 'text'} is not in the corpus"
        self.counts[missing] += matches.count(None)
        return matches


def read_form(form: str, path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """The negatives of a file in any form; what cannot be found in the collection is counted in `lookup.counts`.

    Raises:
        UsageError: the form is unknown or the file's ending is not one of its own.
        DataError: a row is not of the form; the message names its line.
    """
    check_form(form, path)
    if form == OWN:
        return iter(read_negatives(path))
    items = _read(path, _FORMS[form], lookup)
    return _merged(items) if _FORMS[form].several_rows else items


def _read(path: Path, form: "_Form", lookup: TextLookup) -> Iterator[Negatives]:
    for where, row in _rows(path):
        positives, negatives, scores = form.documents(where, row)
        query_id = lookup.query(_value(where, row, form.query, str), by_id=form.query == "query_id")
        if query_id is not None:
            known, found = (lookup.documents(names, form.by_ids) for names in (positives, negatives))
            values = np.array([nan] * len(found) if scores is None else scores, np.float32)
            kept = [number for number, doc_id in enumerate(found) if doc_id is not None]
            yield Negatives(query_id, [i for i in known if i], [i for i in found if i], values[kept])


def _merged(items: Iterable[Negatives]) -> Iterator[Negatives]:
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


def _rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Each row with its location, `file:line`."""
    if path.suffix != ".parquet":
        lines = ((number, json_row(path, number, line)) for number, line in read_lines(path))
        yield from ((f"{path}:{at}", row) for at, row in (read_array(path) if path.suffix == ".json" else lines))
        return
    try:
        with parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(_ROWS) for row in batch.to_pylist())
            yield from ((f"{path}: row {number}", row) for number, row in enumerate(rows, 1))
    except (OSError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: not a Parquet file: {reason}") from error


def _value(where: str, row: JsonObject, name: str, type_: type) -> Any:
    if not isinstance(content := row.get(name), type_):
        raise DataError(f"{where}: field {name!r} must be of type {type_.__name__}, but is {content!r:.60}")
    return content


def _list(where: str, row: JsonObject, name: str, type_: Any, what: str) -> list[Any]:
    items: list[Any] = _value(where, row, name, list)
    if not all(isinstance(item, type_) for item in items):
        raise DataError(f"{where}: field {name!r} must be a list of {what}")
    return items


def _texts(where: str, row: JsonObject, name: str) -> list[str]:
    return _list(where, row, name, str, "strings")


def _numbers(where: str, row: JsonObject, name: str, count: int) -> list[float] | None:
    """As many numbers as documents; None where there is no such field."""
    if row.get(name) is None:
        return None
    items: list[float] = _list(where, row, name, int | float, "numbers")
    if len(items) != count:
        raise DataError(f"{where}: {len(items)} {name} for {count} documents")
    return items


def _scored(record: JsonObject, options: WriteOptions, counts: Counts, **scores: list[float]) -> Iterator[JsonObject]:
    """The record, with the scores where they are wanted; without one of them it is left out."""
    if not options.scores:
        yield record
    elif all(isfinite(score) for values in scores.values() for score in values):
        yield {**record, **scores}
    else:
        counts["rows left out: a document has no score"] += 1


_Documents = tuple[list[str], list[str], list[float] | None]
"""The positives and the negatives of a row that is read, ids or texts, and the negatives' scores."""


def _triplets(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    for positive, score in row.pairs():
        for document, other in zip(row.negatives, row.negative_scores, strict=True):
            record = {"anchor": row.query, "positive": positive, "negative": document.contents}
            yield from _scored(record, options, counts, scores=[score, other])


def _tuple_documents(where: str, row: JsonObject) -> _Documents:
    """Of triplets and of n-tuples."""
    names = [name for name in row if name.startswith("negative_")]
    positives = [_value(where, row, "positive", str)]
    negatives = [_value(where, row, name, str) for name in names or ["negative"]]
    scores = _numbers(where, row, "scores", len(negatives) + 1)
    return positives, negatives, scores and scores[1:]


def _n_tuples(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    for positive, score in row.pairs():
        if len(row.negatives) != options.negatives:
            counts[f"rows left out: fewer than {options.negatives} negatives"] += 1
            continue
        negatives = {f"negative_{number}": document.contents for number, document in enumerate(row.negatives, 1)}
        record = {"anchor": row.query, "positive": positive, **negatives}
        yield from _scored(record, options, counts, scores=[score, *row.negative_scores])


def _labeled_lists(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    labels = {} if options.scores else {"labels": [1] + [0] * len(row.negatives)}
    for positive, score in row.pairs():
        record = {"anchor": row.query, "positive": [positive, *(each.contents for each in row.negatives)], **labels}
        yield from _scored(record, options, counts, scores=[score, *row.negative_scores])


def _labeled_documents(where: str, row: JsonObject) -> _Documents:
    """Those with a label above 0 are positives, else the first is."""
    documents = _texts(where, row, "positive")
    if (labels := _numbers(where, row, "labels", len(documents))) is None:
        scores = _numbers(where, row, "scores", len(documents))
        return documents[:1], documents[1:], scores and scores[1:]
    pairs = list(zip(documents, labels, strict=True))
    return [text for text, label in pairs if label > 0], [text for text, label in pairs if not label > 0], None


def _tevatron_v1(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    positives, negatives = (
        [{"docid": each.doc_id, "title": each.title, "text": each.text} for each in side]
        for side in (row.positives, row.negatives)
    )
    names = {"query_id": row.query_id, "query": row.query}
    yield {**names, "positive_passages": positives, "negative_passages": negatives}


def _passages(where: str, row: JsonObject) -> _Documents:
    positives, negatives = (
        [_value(where, item, "docid", str) for item in _list(where, row, name, dict, "objects")]
        for name in ("positive_passages", "negative_passages")
    )
    return positives, negatives, None


def _tevatron_v2(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    positives, negatives = ([each.doc_id for each in side] for side in (row.positives, row.negatives))
    names = {"query_id": row.query_id, "query_text": row.query}
    yield {**names, "positive_document_ids": positives, "negative_document_ids": negatives}


def _document_ids(where: str, row: JsonObject) -> _Documents:
    return _texts(where, row, "positive_document_ids"), _texts(where, row, "negative_document_ids"), None


def _dpr(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    positives, negatives = (
        [
            {"title": each.title, "text": each.text, "passage_id": each.doc_id}
            | ({"score": score} if options.scores and isfinite(score) else {})
            for each, score in zip(documents, scores, strict=True)
        ]
        for documents, scores in ((row.positives, row.positive_scores), (row.negatives, row.negative_scores))
    )
    sides = {"positive_ctxs": positives, "negative_ctxs": [], "hard_negative_ctxs": negatives}
    yield {"question": row.query, "answers": [], **sides}


def _contexts(where: str, row: JsonObject) -> _Documents:
    """Hard negatives before the other negatives."""
    hard, other, positives = (
        _list(where, row, name, dict, "objects") for name in ("hard_negative_ctxs", "negative_ctxs", "positive_ctxs")
    )
    listed = [item.get("score") for item in (*hard, *other)]
    scores = [float(score) if isinstance(score, int | float) else nan for score in listed]
    known, found = ([_value(where, item, "passage_id", str) for item in side] for side in (positives, [*hard, *other]))
    return known, found, scores


def _flagembedding(row: _Texts, options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    positives, negatives = ([each.contents for each in side] for side in (row.positives, row.negatives))
    record = {"query": row.query, "pos": positives, "neg": negatives}
    return _scored(record, options, counts, pos_scores=row.positive_scores, neg_scores=row.negative_scores)


def _pos_and_neg(where: str, row: JsonObject) -> _Documents:
    positives, negatives = _texts(where, row, "pos"), _texts(where, row, "neg")
    return positives, negatives, _numbers(where, row, "neg_scores", len(negatives))


class _Form(NamedTuple):
    """records, documents: write and read a row. query: the field of the query's text, or `query_id`.

    by_ids: documents are read by ids, not by texts. several_rows: a query may have several, which are joined when read.
    """

    records: Callable[[_Texts, WriteOptions, Counts], Iterator[JsonObject]]
    documents: Callable[[str, JsonObject], _Documents]
    query: str
    by_ids: bool = False
    several_rows: bool = False


_FORMS = {
    "triplet": _Form(_triplets, _tuple_documents, "anchor", several_rows=True),
    "n-tuple": _Form(_n_tuples, _tuple_documents, "anchor", several_rows=True),
    "labeled-list": _Form(_labeled_lists, _labeled_documents, "anchor", several_rows=True),
    "tevatron-v1": _Form(_tevatron_v1, _passages, "query_id", by_ids=True),
    "tevatron-v2": _Form(_tevatron_v2, _document_ids, "query_id", by_ids=True),
    "dpr": _Form(_dpr, _contexts, "question", by_ids=True),
    "flagembedding": _Form(_flagembedding, _pos_and_neg, "query", several_rows=True),
}
