"""Read and write runs, ranked lists in TREC's six-column format, in an order that is the same in all tools.

trec_eval ignores the rank column and the order of lines: it sorts by score (as float32), and equal scores by
document id, both descending. This module writes runs without equal scores, so every reader sees the same order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv

from hardneg.formats import text_lines
from hardneg.formats.collection import StoredCollection
from hardneg.records import DataError, RankedList
from hardneg.store import replacing

_COLUMNS = ("query_id", "q0", "doc_id", "rank", "score", "tag")
_TYPES = {"query_id": pa.large_string(), "doc_id": pa.large_string(), "score": pa.float64()}


class RunLines(NamedTuple):
    """The L lines of a run, in order. query_codes, doc_codes: indices into the ids, int64 [L]. scores: float32 [L]."""

    query_ids: list[str]
    query_codes: NDArray[np.int64]
    doc_ids: list[str]
    doc_codes: NDArray[np.int64]
    scores: NDArray[np.float32]


def parse_lines(path: Path, data: bytes, first: int = 1) -> RunLines:
    """Parse the lines in `data`, which start at line `first` of `path`; columns are separated by spaces or tabs.

    Raises DataError with file and line for invalid UTF-8, the wrong number of columns, an id with control characters, a
    score that is not a finite float32, or a document repeated for one query.
    """
    return _parse_at_once(data) or _parse_by_line(path, data, first)


def _parse_at_once(data: bytes) -> RunLines | None:
    """Parse regular lines with Arrow; return None if only `_parse_by_line` can parse them."""
    delimiter, other = (b"\t", b" ") if b"\t" in data else (b" ", b"\t")
    irregular = (other, b"\r", b"\v", b"\f", delimiter * 2, b"\n" + delimiter, delimiter + b"\n")
    if not data or data[:1] == delimiter or data[-1:] == delimiter or any(part in data for part in irregular):
        return None
    try:
        data.isascii() or data.decode()
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=_COLUMNS),
            parse_options=csv.ParseOptions(delimiter=delimiter.decode(), quote_char=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(_TYPES), column_types=_TYPES, strings_can_be_null=False, null_values=[]
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    encoded = [table[name].combine_chunks().dictionary_encode() for name in ("query_id", "doc_id")]
    query_ids, doc_ids = (column.dictionary.to_pylist() for column in encoded)
    query_codes, doc_codes = (column.indices.to_numpy().astype(np.int64) for column in encoded)
    scores = _as_float32(table["score"].to_numpy())
    pairs = np.sort(query_codes * len(doc_ids) + doc_codes)
    good = (
        np.isfinite(scores).all()
        and not (pairs[1:] == pairs[:-1]).any()
        and all(map(text_lines.one_word, query_ids + doc_ids))
    )
    return RunLines(query_ids, query_codes, doc_ids, doc_codes, scores) if good else None


def _as_float32(scores: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _parse_by_line(path: Path, data: bytes, first: int) -> RunLines:
    query_index, doc_index = dict[str, int](), dict[str, int]()
    scores: dict[tuple[int, int], float] = {}
    for number, line in enumerate(data.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            fields = [field.decode() for field in line.split(maxsplit=5)]  # a tag may have spaces, as in trec_eval
        except UnicodeDecodeError as error:
            raise DataError.at(path, number, "not UTF-8 text; save the file as UTF-8") from error
        if len(fields) != len(_COLUMNS):
            reason = f"expected 6 columns (query_id Q0 doc_id rank score tag), found {len(fields)}"
            raise DataError.at(path, number, reason)
        query_id, doc_id = (text_lines.checked_id(path, number, fields[i]) for i in (0, 2))
        try:
            score = float(fields[4].replace("_", "?"))
        except ValueError as error:
            raise DataError.at(path, number, f"score {fields[4]!r} is not a number") from error
        if not np.isfinite(_as_float32(np.array(score))):
            raise DataError.at(path, number, f"score {fields[4]!r} is not a finite 32-bit number")
        pair = query_index.setdefault(query_id, len(query_index)), doc_index.setdefault(doc_id, len(doc_index))
        if pair in scores:
            raise DataError.at(path, number, f"document {doc_id} occurs twice for query {query_id}; keep one line")
        scores[pair] = score
    pairs = np.array(list(scores), dtype=np.int64).reshape(-1, 2)
    return RunLines(list(query_index), pairs[:, 0], list(doc_index), pairs[:, 1], np.array([*scores.values()], "f4"))


_SUBNORMAL = 0x007FFFFF  # the bit pattern of the largest float32 that is not normal
_LARGEST = 0x7F7FFFFF - _SUBNORMAL

Run = Mapping[str, RankedList]
"""Ranked lists by query id: queries in the file's order, each list in trec_eval's order, best first."""

QueryLists = tuple[str, Mapping[str, RankedList]]
"""A query id, and the query's lists by run label; negatives are selected from the first list."""

EMPTY = RankedList((), np.empty(0, np.float32))
"""The empty list of a query that is missing from the run."""


def read_run(path: Path) -> Run:
    """Read a run of six columns separated by spaces or tabs, plain or gzip (recognised by content).

    Raises DataError as `parse_lines` does, and for a truncated or empty file.
    """
    run = dict(_ranked(parse_lines(path, b"".join(text_lines.read_bytes(path)))))
    if not run:
        raise DataError(f"{path}: the run is empty")
    return run


def stream_run(path: Path) -> Iterator[tuple[str, RankedList]]:
    """Stream the items of `read_run`, about a megabyte at a time; an empty file yields no items.

    Raises DataError on reaching a mistake that `read_run` reports, or if the lines of a query are not contiguous.
    """
    seen: set[str] = set()
    for first, block in _blocks(path):
        for query_id, ranked in _ranked(parse_lines(path, block, first)):
            if query_id in seen:
                raise DataError(f"{path}: the lines of query {query_id} are not contiguous; sort the run by query")
            seen.add(query_id)
            yield query_id, ranked


def lists_in_order(path: Path, query_ids: Iterable[str]) -> Iterator[RankedList]:
    """Stream the run's ranked list of each given query; the list is empty if the query is missing from the run.

    Raises DataError as `stream_run` does, or if the run has other queries or has them in a different order.
    """
    stream = stream_run(path)
    head = next(stream, None)
    for query_id in query_ids:
        if head is not None and head[0] == query_id:
            yield head[1]
            head = next(stream, None)
        else:
            yield EMPTY
    if head is not None:
        raise DataError(f"{path}: query {head[0]} is not in the split, or out of order; rerun the search of this split")


def lists_side_by_side(runs: Mapping[str, Path], query_ids: Sequence[str]) -> Iterator[QueryLists]:
    """Stream each query id with its ranked lists by run label. Raises DataError as `lists_in_order` does."""
    streams = [lists_in_order(path, query_ids) for path in runs.values()]
    for query_id, *lists in zip(query_ids, *streams, strict=True):
        yield query_id, dict(zip(runs, lists, strict=True))


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks with all lines of consecutive queries, each with the number of its first line."""
    first, rest = 1, b""
    for chunk in text_lines.read_bytes(path):
        rest += chunk
        begin = end = rest.rfind(b"\n") + 1  # of the last query with a complete line
        query_id = b""
        while end > 0:
            start = rest.rfind(b"\n", 0, end - 1) + 1
            name = next(iter(rest[start : end - 1].split(None, 1)), query_id)
            if query_id and name != query_id:
                yield first, rest[:begin]
                first, rest = first + rest.count(b"\n", 0, begin), rest[begin:]
                break
            begin, query_id, end = start, name, start
    if rest:
        yield first, rest


def _ranked(lines: RunLines) -> Iterator[tuple[str, RankedList]]:
    """Each query's list in trec_eval's order."""
    order = np.lexsort((-lines.scores, lines.query_codes))
    scores, queries = lines.scores[order], lines.query_codes[order]
    if ((scores[1:] == scores[:-1]) & (queries[1:] == queries[:-1])).any():
        ranks = compute.rank(pa.array(lines.doc_ids, type=pa.string()), tiebreaker="dense").to_numpy().astype(np.int64)
        order = np.lexsort((-ranks[lines.doc_codes], -lines.scores, lines.query_codes))
    doc_ids = np.array(lines.doc_ids, dtype=object)[lines.doc_codes[order]]
    scores = lines.scores[order]
    ends = np.cumsum(np.bincount(lines.query_codes, minlength=len(lines.query_ids)))
    for query_id, start, end in zip(lines.query_ids, [0, *ends[:-1].tolist()], ends.tolist(), strict=False):
        yield query_id, RankedList(doc_ids[start:end].tolist(), scores[start:end])


def write_run(path: Path, entries: Iterable[tuple[str, RankedList]], tag: str = "hardneg") -> int:
    """Stream a run to a file, gzipped if its name ends in `.gz`, completely or not at all; return the number of lines.

    Documents are ordered by (-score, doc_id) in the precision of the scores. Scores that are equal in float32 are
    lowered by the smallest possible steps until they differ. Equal entries produce identical bytes.

    Args:
        path: the file to write.
        entries: pairs of query id and ranked list; the documents of a list may be in any order.
        tag: the name in the last column.

    Raises DataError for an id or tag that is empty or has white space, a repeated query or document, or a score that is
    not finite.
    """
    count = 0
    with replacing(path) as file:
        for lines in _all_lines(entries, tag, f"the run {path}"):
            file.write(lines)
            count += lines.count(b"\n")
    return count


def run_bytes(entries: Iterable[tuple[str, RankedList]], tag: str = "hardneg") -> bytes:
    """Return the encoded lines that `write_run` writes for these entries. Raises DataError as `write_run` does."""
    return b"".join(_all_lines(entries, tag, "part of a run"))


def _all_lines(entries: Iterable[tuple[str, RankedList]], tag: str, where: str) -> Iterator[bytes]:
    """The encoded lines of each query."""
    _check_word("the tag", tag)
    written: set[str] = set()
    for query_id, ranked in entries:
        if query_id in written:
            raise DataError(f"query {query_id} occurs twice in {where}; merge its lists")
        written.add(query_id)
        _check_word("a query id", query_id)
        doc_ids, exact = ranked.doc_ids, np.asarray(ranked.scores)
        scores, joined = _as_float32(exact), "".join(doc_ids)
        if not all(doc_ids) or (joined and not text_lines.one_word(joined)):
            for doc_id in doc_ids:
                _check_word("a document id", doc_id)
        if scores.shape != (len(doc_ids),):
            raise DataError(f"query {query_id} has {len(doc_ids)} documents but scores of shape {scores.shape}")
        if len(set(doc_ids)) != len(doc_ids):
            raise DataError(f"query {query_id} ranks a document twice; keep one of the two")
        if not np.isfinite(scores).all():
            raise DataError(f"query {query_id} has a score that is not a finite 32-bit number")
        order = np.argsort(-exact, stable=True).tolist()
        if (exact[order[1:]] == exact[order[:-1]]).any():
            negated = (-exact).tolist()
            order = sorted(range(len(doc_ids)), key=lambda i: (negated[i], doc_ids[i]))
        rows = zip(order, strictly_decreasing(scores[order]).tolist(), strict=True)
        lines = (f"{query_id} Q0 {doc_ids[i]} {n} {score:.9g} {tag}\n" for n, (i, score) in enumerate(rows, 1))
        yield "".join(lines).encode()


def _check_word(what: str, word: str) -> None:
    if not text_lines.one_word(word):
        raise DataError(f"{what} of a run is {word!r}; it must not be empty or contain white space")


def strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a copy of descending scores, float32 [n], in which equal scores are lowered until all differ.

    Subnormal numbers count as zero and are never produced: some programs flush them to zero.
    """
    bits = scores.view(np.int32).astype(np.int64)
    magnitude = np.maximum((bits & 0x7FFFFFFF) - _SUBNORMAL, 0)
    steps = np.where(bits < 0, -magnitude, magnitude)  # consecutive integers for consecutive normal numbers
    position = np.arange(len(steps))
    steps = np.minimum.accumulate(steps + position) - position
    steps = np.maximum(steps, position[::-1] - _LARGEST)
    restored = np.where(steps == 0, 0, np.abs(steps) + _SUBNORMAL).astype(np.uint32)
    restored |= np.where(steps < 0, 0x80000000, 0).astype(np.uint32)
    return restored.view(np.float32)


def rewrite_run(path: Path, collection: StoredCollection, split: str, target: Path) -> dict[str, int]:
    """Copy a run's lists for the queries of a split to `target`, in split order. Unknown documents are left out.

    Ties keep the run's order. Return the non-zero counts of matched and unmatched ids, by description.

    Raises DataError if the run is malformed, or shares no query with the split or no document with the corpus.
    """
    run, facts, documents = read_run(path), Counter[str](), 0
    query_ids = collection.queries(split).query_ids
    facts["run queries that are not in the split"] = len(run.keys() - set(query_ids))
    facts["queries that are not in the run"] = len(query_ids) - len(run.keys() & set(query_ids))
    facts["queries in the run"] = len(query_ids) - facts["queries that are not in the run"]

    def entries() -> Iterator[tuple[str, RankedList]]:
        nonlocal documents
        for query_id in (each for each in query_ids if each in run):
            ranked = run[query_id]
            known = collection.corpus.rows(ranked.doc_ids) >= 0
            doc_ids = [doc_id for doc_id, there in zip(ranked.doc_ids, known.tolist(), strict=True) if there]
            documents += len(doc_ids)
            facts["run documents that are not in the corpus"] += len(known) - len(doc_ids)
            yield query_id, RankedList(doc_ids, strictly_decreasing(ranked.scores[known]))

    write_run(target, entries())
    if not facts["queries in the run"]:
        raise DataError(f"{path}: the run has no query of split {split}; choose the split that was searched")
    if not documents and facts["run documents that are not in the corpus"]:
        raise DataError(f"{path}: the run has no document of the corpus; choose the dataset that was searched")
    return {name: count for name, count in facts.items() if count}
