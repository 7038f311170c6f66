"""Write negatives as rows in the forms of other training programs, and read them back as ids.

`triplet`, `n-tuple` and `labeled-list` follow sentence-transformers' `mine_hard_negatives`, with columns in the order
that its trainer expects. A query has one or more rows per positive. The last column, `scores`, is optional and begins
with the positive's score. `tevatron-v1`, `dpr` and `flagembedding` have one object per query, with all texts.
`tevatron-v2` has only ids and needs a corpus file. When a file is read, documents are matched by id in Tevatron's and
DPR's forms, and by text in the others. Queries are matched by id in Tevatron's forms, and by text in the others.

Files are JSON Lines, one JSON list, or Parquet. They are written completely or not at all, and read as a stream.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from hardneg.formats import arrays, text_lines
from hardneg.formats.collection import Queries
from hardneg.formats.corpus import Corpus
from hardneg.formats.form_names import OWN, check_form
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import ArtifactError, DataError, Document, Negatives, UsageError
from hardneg.store import replacing

_QUERIES, _ROWS = 256, 1024
_NO_QUERY = "rows left out: their query is not in the split"
_SHARED = "query texts with several ids, matched to the first id"

Counts = Counter[str]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class WriteOptions:
    """Options for `write_form`. negatives: maximum number per query, from the first on; None for all.

    scores: whether to add scores. positive_scores: returns the scores of a query's positives, float32; None if unknown.
    """

    negatives: int | None = None
    scores: bool = False
    positive_scores: Callable[[Negatives], NDArray[np.float32]] | None = None


class _Texts(NamedTuple):
    """One query with its documents and their scores, nan if a score is missing."""

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
    """Write negatives to a file, completely or not at all. Return counts: the `rows` written, and omissions by reason.

    Raises:
        UsageError: the form is unknown, the file's suffix is wrong, or `n-tuple` has no number of negatives.
        DataError: a query or document is unknown, or there are no rows to write.
    """
    check_form(form, path)
    if form == "n-tuple" and not options.negatives:
        raise UsageError("n-tuple: every row needs the same number of negatives; set the number per query")
    counts: Counts = Counter()
    first = _first(negatives, options.negatives, form, counts)
    if form == OWN:
        rows = write_negatives(path, first)
    else:
        texts = _with_texts(first, queries, corpus, options, counts)
        rows = _write(path, _records(form, texts, options, counts))
    if not rows:
        raise _no_rows(form, counts)
    return {"rows": rows, **+counts}


def _first(negatives: Iterable[Negatives], limit: int | None, form: str, counts: Counts) -> Iterator[Negatives]:
    """Yield each query with its first `limit` negatives."""
    some = 0
    for item in negatives:
        some += bool(item.negatives)
        counts["queries without negatives"] += form == OWN and not item.negatives
        if limit is not None and item.positives and len(item.negatives) > limit:
            counts[f"negatives left out: beyond the first {limit} per query"] += len(item.negatives) - limit
        yield Negatives(item.query_id, item.positives, item.negatives[:limit], item.scores[:limit], item.dropped)
    if form == OWN and not some:
        raise _no_rows(form, counts)


def _no_rows(form: str, counts: Counts) -> DataError:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in (+counts).items())
    lost = f" ({reasons})" if reasons else ""
    return DataError(f"form {form}: no rows to write{lost}; mine more negatives, or write fewer per query")


def _with_texts(
    negatives: Iterable[Negatives], queries: Queries, corpus: Corpus, options: WriteOptions, counts: Counts
) -> Iterator[_Texts]:
    """Yield the texts of each query's documents in the order of `negatives`, a few hundred queries at a time."""
    texts, items = dict(queries), iter(negatives)
    while block := list(islice(items, _QUERIES)):
        doc_ids = list(dict.fromkeys(doc_id for item in block for doc_id in (*item.positives, *item.negatives)))
        rows = corpus.known_rows(doc_ids, "document", "use the dataset that the negatives were mined from")
        documents = dict(zip(doc_ids, corpus.documents_at(rows), strict=True))
        for item in block:
            if item.query_id not in texts:
                raise DataError(f"query {item.query_id!r} is not in the split; choose the split that was mined")
            if not (item.positives and item.negatives):
                counts[f"queries left out: no {'negative' if item.positives else 'positive'}"] += 1
                continue
            positives, others = ([documents[name] for name in ids] for ids in (item.positives, item.negatives))
            known = options.positive_scores
            scores = known(item).tolist() if known else [np.nan] * len(positives)
            others_scores = np.asarray(item.scores, np.float32).tolist()
            yield _Texts(item.query_id, texts[item.query_id], positives, others, scores, others_scores)


def _records(form: str, rows: Iterable[_Texts], options: WriteOptions, counts: Counts) -> Iterator[JsonObject]:
    """Yield the records of all queries, omitting those that lack a requested score."""
    for row in rows:
        if form == "n-tuple" and len(row.negatives) != options.negatives:
            counts[f"rows left out: fewer than {options.negatives} negatives"] += len(row.positives)
            continue
        for record, scores in _FORMS[form].records(row, options.scores):
            if options.scores and not all(np.isfinite(score) for values in scores.values() for score in values):
                counts["rows left out: a document has no score"] += 1
            else:
                yield {**record, **scores} if options.scores else record


def write_tevatron_corpus(path: Path, corpus: Corpus) -> int:
    """Write the corpus file of `tevatron-v2`, JSON Lines with fields `docid` and `text`; return the number of lines.

    `text` starts with the title. There is no field `title`, which Tevatron reads to encode but not to train.
    """
    rows = ({"docid": document.doc_id, "text": document.contents} for document in corpus.documents())
    return _write(path, rows)


def _write(path: Path, rows: Iterator[JsonObject]) -> int:
    """Write rows in the format of the file's suffix, and no file if there are none; return their number."""
    if (first := next(rows, None)) is None:
        return 0
    rows, count = chain([first], rows), 0
    try:
        with replacing(path) as file:
            if path.suffix == ".parquet":
                types = {str: pa.string(), int: pa.int64(), float: pa.float32()}
                fields = {
                    name: pa.list_(types[type(value[0])]) if isinstance(value, list) else types[type(value)]
                    for name, value in first.items()
                }
                with parquet.ParquetWriter(file, pa.schema(fields)) as writer:
                    while block := list(islice(rows, _ROWS)):
                        writer.write_table(pa.Table.from_pylist(block, writer.schema))
                        count += len(block)
                return count
            start, between, end = (b"[\n", b",\n", b"\n]\n") if path.suffix == ".json" else (b"", b"\n", b"\n")
            file.write(start)
            for count, row in enumerate(rows, 1):
                file.write((between if count > 1 else b"") + json.dumps(row, ensure_ascii=False).encode())
            file.write(end)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error})") from error
    return count


class TextLookup:
    """Finds the ids of queries and documents by text or id.

    If a text is repeated, its first occurrence is used. counts: the number of misses and ambiguous texts, by reason.
    """

    def __init__(self, queries: Queries, corpus: Corpus) -> None:
        self.corpus, self.counts = corpus, Counts()
        self._ids = frozenset(queries.query_ids)
        self._by_text, self._shared = dict[str, str](), set[str]()
        for query_id, text in queries:
            if self._by_text.setdefault(arrays.normalise(text), query_id) != query_id:
                self._shared.add(arrays.normalise(text))

    def query(self, name: str, by_id: bool) -> str | None:
        """Return the id of the first query with text `name` or, if `by_id`, with id `name`; None if there is none."""
        text = arrays.normalise(name)
        query_id = (name if name in self._ids else None) if by_id else self._by_text.get(text)
        if not by_id and text in self._shared:
            self.counts[_SHARED] += 1
            self._shared.discard(text)
        self.counts[_NO_QUERY] += query_id is None
        return query_id

    def documents(self, names: Sequence[str], by_id: bool) -> list[str | None]:
        """Return, for each name, the id of the first document with that text (or, if `by_id`, that id) or None."""
        if by_id:
            known = self.corpus.rows(names).tolist()
            matches = [doc_id if row >= 0 else None for doc_id, row in zip(names, known, strict=True)]
        else:
            wanted, matches, order = [arrays.normalise(text) for text in names], [], self.corpus.content_order
            first, end = arrays.find_equal(self.corpus.content_hash, arrays.hash_texts(wanted), order)
            for text, low, high in zip(wanted, first, end, strict=True):
                rows = np.sort(order[low:high]).tolist()
                same = (row for row in rows if arrays.normalise(self.corpus.contents(np.array([row]))[0]) == text)
                matches.append(next((str(self.corpus.doc_ids[row]) for row in same), None))
        missing = f"documents left out: their {'id' if by_id else 'text'} is not in the corpus"
        self.counts[missing] += matches.count(None)
        return matches


def read_form(form: str, path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """Stream a file of negatives in any form; `lookup.counts` counts queries and documents not in the collection.

    Raises:
        UsageError: the form is unknown or the file's suffix does not fit the form.
        DataError: a row does not follow the form; the message gives its line. Form `hardneg` raises ArtifactError.
    """
    check_form(form, path)
    if form == OWN:
        return iter(read_negatives(path))
    items = _read(path, _FORMS[form], lookup)
    return items if _FORMS[form].by_ids else _merged(items)


def _read(path: Path, form: "_Form", lookup: TextLookup) -> Iterator[Negatives]:
    for row in _rows(path):
        positives, negatives, scores = form.documents(row)
        query_id = lookup.query(row.value(form.query, str), by_id=form.query == "query_id")
        if query_id is not None:
            known, found = (lookup.documents(names, form.by_ids) for names in (positives, negatives))
            values = np.array([np.nan] * len(found) if scores is None else scores, np.float32)
            there = [number for number, doc_id in enumerate(found) if doc_id is not None]
            yield Negatives(query_id, [i for i in known if i], [i for i in found if i], values[there])


def _merged(items: Iterable[Negatives]) -> Iterator[Negatives]:
    """Merge the records of each query into one without repeated documents, holding all ids in memory but no texts."""
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


class _Row(NamedTuple):
    """A row of a file, and its location, `file:line`."""

    where: str
    fields: JsonObject

    def value(self, name: str, type_: type) -> Any:
        if not isinstance(content := self.fields.get(name), type_):
            raise DataError(f"{self.where}: field {name!r} must be of type {type_.__name__}, not {content!r:.60}")
        return content

    def items(self, name: str, type_: Any, what: str) -> list[Any]:
        items: list[Any] = self.value(name, list)
        if not all(isinstance(item, type_) for item in items):
            raise DataError(f"{self.where}: field {name!r} must be a list of {what}")
        return items

    def texts(self, name: str, key: str = "") -> list[str]:
        """The texts in a list, or the texts under `key` if the list has objects."""
        if not key:
            return self.items(name, str, "strings")
        return [_Row(self.where, item).value(key, str) for item in self.items(name, dict, "objects")]

    def numbers(self, name: str, count: int) -> list[float] | None:
        """A list of `count` numbers; None if the field is missing."""
        if self.fields.get(name) is None:
            return None
        items = self.items(name, int | float, "numbers")
        if len(items) != count:
            raise DataError(f"{self.where}: field {name!r} needs one number per document ({count}), not {len(items)}")
        return items


def _rows(path: Path) -> Iterator[_Row]:
    if path.suffix != ".parquet":
        lines = ((number, text_lines.json_row(path, number, line)) for number, line in text_lines.read_lines(path))
        rows = text_lines.read_array(path) if path.suffix == ".json" else lines
        yield from (_Row(f"{path}:{number}", row) for number, row in rows)
        return
    try:
        with parquet.ParquetFile(path) as file:
            records = (row for batch in file.iter_batches(_ROWS) for row in batch.to_pylist())
            yield from (_Row(f"{path}: row {number}", row) for number, row in enumerate(records, 1))
    except (OSError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: not a Parquet file ({reason})") from error


_Records = Iterator[tuple[JsonObject, Mapping[str, list[float]]]]
"""The records of one query, each with its scores."""
_Documents = tuple[list[str], list[str], list[float] | None]
"""The positives and negatives of one row, as ids or texts, and the negatives' scores."""


def _triplets(row: _Texts, scores: bool) -> _Records:
    for positive, score in row.pairs():
        for document, other in zip(row.negatives, row.negative_scores, strict=True):
            record = {"anchor": row.query, "positive": positive, "negative": document.contents}
            yield record, {"scores": [score, other]}


def _n_tuples(row: _Texts, scores: bool) -> _Records:
    negatives = {f"negative_{number}": document.contents for number, document in enumerate(row.negatives, 1)}
    for positive, score in row.pairs():
        record = {"anchor": row.query, "positive": positive, **negatives}
        yield record, {"scores": [score, *row.negative_scores]}


def _tuple_documents(row: _Row) -> _Documents:
    """The documents of triplets and n-tuples."""
    names = [name for name in row.fields if name.startswith("negative_")]
    negatives = [row.value(name, str) for name in names or ["negative"]]
    scores = row.numbers("scores", len(negatives) + 1)
    return [row.value("positive", str)], negatives, scores and scores[1:]


def _labeled_lists(row: _Texts, scores: bool) -> _Records:
    labels = {} if scores else {"labels": [1] + [0] * len(row.negatives)}
    for positive, score in row.pairs():
        record = {"anchor": row.query, "positive": [positive, *(each.contents for each in row.negatives)], **labels}
        yield record, {"scores": [score, *row.negative_scores]}


def _labeled_documents(row: _Row) -> _Documents:
    """Split documents into positives (label above 0) and negatives; without labels, the first one is positive."""
    documents = row.texts("positive")
    if (labels := row.numbers("labels", len(documents))) is None:
        scores = row.numbers("scores", len(documents))
        return documents[:1], documents[1:], scores and scores[1:]
    pairs = list(zip(documents, labels, strict=True))
    return [text for text, label in pairs if label > 0], [text for text, label in pairs if not label > 0], None


def _tevatron_v1(row: _Texts, scores: bool) -> _Records:
    positives, negatives = (
        [{"docid": each.doc_id, "title": each.title, "text": each.text} for each in side]
        for side in (row.positives, row.negatives)
    )
    names = {"query_id": row.query_id, "query": row.query}
    yield {**names, "positive_passages": positives, "negative_passages": negatives}, {}


def _tevatron_v2(row: _Texts, scores: bool) -> _Records:
    positives, negatives = ([each.doc_id for each in side] for side in (row.positives, row.negatives))
    names = {"query_id": row.query_id, "query_text": row.query}
    yield {**names, "positive_document_ids": positives, "negative_document_ids": negatives}, {}


def _dpr(row: _Texts, scores: bool) -> _Records:
    positives, negatives = (
        [
            {"title": each.title, "text": each.text, "passage_id": each.doc_id}
            | ({"score": score} if scores and np.isfinite(score) else {})
            for each, score in zip(documents, known, strict=True)
        ]
        for documents, known in ((row.positives, row.positive_scores), (row.negatives, row.negative_scores))
    )
    sides = {"positive_ctxs": positives, "negative_ctxs": [], "hard_negative_ctxs": negatives}
    yield {"question": row.query, "answers": [], **sides}, {}


def _contexts(row: _Row) -> _Documents:
    """Read the hard negatives first, then the other negatives."""
    hard, other, positives = (f"{kind}_ctxs" for kind in ("hard_negative", "negative", "positive"))
    negatives = row.texts(hard, "passage_id") + row.texts(other, "passage_id")
    scores = [item.get("score") for name in (hard, other) for item in row.fields[name]]
    numbers = [float(score) if isinstance(score, int | float) else np.nan for score in scores]
    return row.texts(positives, "passage_id"), negatives, numbers


def _flagembedding(row: _Texts, scores: bool) -> _Records:
    positives, negatives = ([each.contents for each in side] for side in (row.positives, row.negatives))
    record = {"query": row.query, "pos": positives, "neg": negatives}
    yield record, {"pos_scores": row.positive_scores, "neg_scores": row.negative_scores}


class _Form(NamedTuple):
    """Functions that write (`records`) and read (`documents`) a row.

    query: the field with the query's text, or `query_id`. by_ids: documents are matched by id and a query has one row;
    otherwise documents are matched by text, and a query's rows are merged.
    """

    records: Callable[[_Texts, bool], _Records]
    documents: Callable[[_Row], _Documents]
    query: str
    by_ids: bool = False


_FORMS = {
    "triplet": _Form(_triplets, _tuple_documents, "anchor"),
    "n-tuple": _Form(_n_tuples, _tuple_documents, "anchor"),
    "labeled-list": _Form(_labeled_lists, _labeled_documents, "anchor"),
    "tevatron-v1": _Form(
        _tevatron_v1,
        lambda row: (row.texts("positive_passages", "docid"), row.texts("negative_passages", "docid"), None),
        "query_id",
        by_ids=True,
    ),
    "tevatron-v2": _Form(
        _tevatron_v2,
        lambda row: (row.texts("positive_document_ids"), row.texts("negative_document_ids"), None),
        "query_id",
        by_ids=True,
    ),
    "dpr": _Form(_dpr, _contexts, "question", by_ids=True),
    "flagembedding": _Form(
        _flagembedding,
        lambda row: (row.texts("pos"), row.texts("neg"), row.numbers("neg_scores", len(row.texts("neg")))),
        "query",
    ),
}
