"""Runs: ranked lists in TREC's six columns, read in trec_eval's order and written so that all tools agree.

trec_eval ignores the rank column and the order of lines: it sorts by score (as float32), and equal scores by
document id, both descending. A run that this module writes has no equal scores: every reader sees one order.
"""

import codecs
import gzip
import shutil
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from hardneg.atomic_write import replacing
from hardneg.counting import counted
from hardneg.data.text_lines import checked_id, other_kind
from hardneg.errors import DataError

_COLUMNS = ("query_id", "q0", "doc_id", "rank", "score", "tag")
_TYPES = {"query_id": pa.large_string(), "doc_id": pa.large_string(), "score": pa.float64()}
_CHUNK = 1 << 22
_CONTROLS = [bytes([code]) for code in (*range(32), 127) if code not in b"\t\n"]
_MORE_CONTROLS = [chr(code).encode() for code in range(128, 160)]
_SUBNORMAL = 0x007FFFFF  # the bit pattern of the largest float32 that is not normal
_LARGEST = 0x7F7FFFFF - _SUBNORMAL


@dataclass(frozen=True)
class Run:
    """Ranked lists by query: queries in the file's order, each list best first, as trec_eval would order it.

    doc_ids: one list a query; scores: one float32 array a query, of the same length, descending.
    """

    query_ids: list[str]
    doc_ids: list[list[str]]
    scores: list[NDArray[np.float32]]


class _Lines(NamedTuple):
    """The lines of a run in file order: codes index into ids; int64 [L], int64 [L], float32 [L]."""

    query_ids: list[str]
    query_codes: NDArray[np.int64]
    doc_ids: list[str]
    doc_codes: NDArray[np.int64]
    scores: NDArray[np.float32]


def read_run(path: Path) -> Run:
    """Reads a run of six columns, plain or gzip (told by its content), separated by blanks or tabs.

    Raises:
        DataError: naming file and line, for a truncated file, bad UTF-8, another number of columns, an id with
            control characters, a score that is not a finite float32, or a document that stands twice for one query;
            naming the file, where it holds nothing.
    """
    data = _content(path)
    lines = _parse_at_once(data)
    run = _ranked(lines if lines is not None else _parse_by_line(path, data))
    if not run.query_ids:
        raise DataError(f"{path}: the run is empty{'' if path.is_file() else '; a pipe can be read only once'}")
    return run


def _content(path: Path) -> bytes:
    chunks: list[bytes] = []
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            while chunk := source.read(_CHUNK):
                chunks.append(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        line = sum(chunk.count(b"\n") for chunk in chunks) + 1
        raise DataError.at(path, line, f"the gzip file is damaged ({error}): fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: the run cannot be read ({error.strerror})") from error
    data = b"".join(chunks)
    if kind := other_kind(data[:64]):
        raise DataError(f"{path}: not a text file but {kind}")
    return data.removeprefix(codecs.BOM_UTF8)


def _parse_at_once(data: bytes) -> _Lines | None:
    """Parses a file without any irregularity; None where `_parse_by_line` has to look closer."""
    delimiter = b"\t" if b"\t" in data else b" "
    if not data or not _is_text(data) or not _is_regular(data, delimiter):
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=_COLUMNS),
            parse_options=csv.ParseOptions(delimiter=delimiter.decode(), quote_char=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(_TYPES),
                column_types={"query_id": pa.large_string(), "doc_id": pa.large_string(), "score": pa.float64()},
                strings_can_be_null=False,
                null_values=[],
            ),
        )
    except pa.ArrowInvalid:
        return None
    query_ids, query_codes = _encoded(table["query_id"])
    doc_ids, doc_codes = _encoded(table["doc_id"])
    scores = _as_float32(table["score"].to_numpy())
    good = np.isfinite(scores).all() and not _has_repeats(query_codes, doc_codes, len(doc_ids))
    return _Lines(query_ids, query_codes, doc_ids, doc_codes, scores) if good else None


def _is_text(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _is_regular(data: bytes, delimiter: bytes) -> bool:
    other = b" " if delimiter == b"\t" else b"\t"
    irregular = (other, b"\r", delimiter * 2, b"\n" + delimiter, delimiter + b"\n")
    inside = any(part in data for part in (*irregular, *_CONTROLS))
    inside = inside or (not data.isascii() and any(part in data for part in _MORE_CONTROLS))
    return not (inside or data.startswith(delimiter) or data.endswith(delimiter))


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _as_float32(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _has_repeats(query_codes: NDArray[np.int64], doc_codes: NDArray[np.int64], documents: int) -> bool:
    pairs = np.sort(query_codes * documents + doc_codes)
    return bool((pairs[1:] == pairs[:-1]).any())


def _parse_by_line(path: Path, data: bytes) -> _Lines:
    query_index: dict[str, int] = {}
    doc_index: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    scores: list[float] = []
    codes: list[tuple[int, int]] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        query_id, doc_id, score = _fields(path, number, line)
        query_code = query_index.setdefault(query_id, len(query_index))
        pair = query_code, doc_index.setdefault(doc_id, len(doc_index))
        if pair in seen:
            raise DataError.at(path, number, f"document {doc_id} comes twice for query {query_id}: keep one")
        seen.add(pair)
        codes.append(pair)
        scores.append(score)
    pairs = np.array(codes, dtype=np.int64).reshape(-1, 2)
    return _Lines(list(query_index), pairs[:, 0], list(doc_index), pairs[:, 1], np.array(scores, dtype=np.float32))


def _fields(path: Path, number: int, line: bytes) -> tuple[str, str, float]:
    try:
        fields = [field.decode() for field in line.split()]
    except UnicodeDecodeError as error:
        raise DataError.at(path, number, "not UTF-8 text: save the file as UTF-8") from error
    if len(fields) != len(_COLUMNS):
        raise DataError.at(path, number, f"{counted(len(fields), 'column')}, not 6 (query_id Q0 doc_id rank score tag)")
    try:
        score = float(fields[4].replace("_", "?"))
    except ValueError as error:
        raise DataError.at(path, number, f"score {fields[4]!r} is not a number") from error
    if not np.isfinite(_as_float32(np.array(score))):
        raise DataError.at(path, number, f"score {fields[4]!r} is not a finite 32-bit number")
    return checked_id(path, number, fields[0]), checked_id(path, number, fields[2]), score


def _ranked(lines: _Lines) -> Run:
    order = _trec_eval_order(lines)
    doc_ids = np.array(lines.doc_ids, dtype=object)[lines.doc_codes[order]]
    scores = lines.scores[order]
    ends = np.cumsum(np.bincount(lines.query_codes, minlength=len(lines.query_ids)))
    bounds = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False))
    lists = [doc_ids[start:end].tolist() for start, end in bounds]
    return Run(lines.query_ids, lists, [scores[start:end] for start, end in bounds])


def _trec_eval_order(lines: _Lines) -> NDArray[np.int64]:
    order = np.lexsort((-lines.scores, lines.query_codes))
    scores, queries = lines.scores[order], lines.query_codes[order]
    tied = (scores[1:] == scores[:-1]) & (queries[1:] == queries[:-1])
    if not tied.any():
        return order
    ranks = pc.rank(pa.array(lines.doc_ids, type=pa.string()), tiebreaker="dense").to_numpy().astype(np.int64)
    return np.lexsort((-ranks[lines.doc_codes], -lines.scores, lines.query_codes))


def write_run(
    path: Path, entries: Iterable[tuple[str, Sequence[str], NDArray[np.float32]]], tag: str = "hardneg"
) -> int:
    """Writes a run, all of it or nothing, one query at a time; gzip where the name ends in `.gz`.

    Documents are ordered by (-score, doc_id), and equal scores are made different by the smallest steps of
    float32, downwards. Equal entries give equal bytes.

    Args:
        path: where to write.
        entries: query id, its document ids [n], and their scores, float32 [n], in any order.
        tag: the name in the last column.

    Returns:
        The number of lines.

    Raises:
        DataError: for ids or a tag that are empty or hold white space, a query or a document that comes
            twice, or a score that is not finite.
    """
    _check_word("the tag", tag)
    written: set[str] = set()
    count = 0
    with replacing(path) as file:
        for query_id, doc_ids, scores in entries:
            if query_id in written:
                raise DataError(f"query {query_id} comes twice in the run {path}")
            written.add(query_id)
            file.write(_lines_of(query_id, doc_ids, np.asarray(scores, dtype=np.float32), tag))
            count += len(doc_ids)
    return count


def join_runs(parts: Sequence[Path], path: Path) -> None:
    """Writes runs that were written without gzip as one, in the order given: the bytes of one `write_run` of all."""
    with replacing(path) as file:
        for part in parts:
            with part.open("rb") as lines:
                shutil.copyfileobj(lines, file)


def _lines_of(query_id: str, doc_ids: Sequence[str], scores: NDArray[np.float32], tag: str) -> bytes:
    _check_word("a query id", query_id)
    _check_entry(query_id, doc_ids, scores)
    order = np.argsort(-scores, kind="stable").tolist()
    if (scores[order[1:]] == scores[order[:-1]]).any():
        negated = (-scores).tolist()
        order = sorted(range(len(doc_ids)), key=lambda i: (negated[i], doc_ids[i]))
    distinct = strictly_decreasing(scores[order]).tolist()
    ranked = enumerate(zip(order, distinct, strict=True), start=1)
    return "".join(f"{query_id} Q0 {doc_ids[i]} {rank} {score:.9g} {tag}\n" for rank, (i, score) in ranked).encode()


def _check_word(what: str, word: str) -> None:
    if word.split() != [word]:
        raise DataError(f"{what} of a run is {word!r}: it must be one word without white space")


def _check_entry(query_id: str, doc_ids: Sequence[str], scores: NDArray[np.float32]) -> None:
    joined = "".join(doc_ids)
    if not all(doc_ids) or (joined and joined.split() != [joined]):
        for doc_id in doc_ids:
            _check_word("a document id", doc_id)
    if scores.shape != (len(doc_ids),):
        raise DataError(f"query {query_id} has {len(doc_ids)} documents but scores of shape {scores.shape}")
    if len(set(doc_ids)) != len(doc_ids):
        raise DataError(f"query {query_id} ranks a document twice: keep each document once")
    if not np.isfinite(scores).all():
        raise DataError(f"query {query_id} has a score that is not a finite 32-bit number")


def strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest scores below that differ: float32 [n] descending in, float32 [n] strictly descending out.

    Subnormal numbers count as zero and are never produced: some programs flush them to zero.
    """
    bits = scores.view(np.int32).astype(np.int64)
    magnitude = np.maximum((bits & 0x7FFFFFFF) - _SUBNORMAL, 0)
    steps = np.where(bits < 0, -magnitude, magnitude)  # consecutive integers for consecutive normal numbers
    place = np.arange(len(steps))
    steps = np.minimum.accumulate(steps + place) - place
    steps = np.maximum(steps, place[::-1] - _LARGEST)
    restored = np.where(steps == 0, 0, np.abs(steps) + _SUBNORMAL).astype(np.uint32)
    restored |= np.where(steps < 0, 0x80000000, 0).astype(np.uint32)
    return restored.view(np.float32)
