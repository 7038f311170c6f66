"""The lines of a run in TREC's six columns, parsed: at once where the text is regular, else one after another."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from hardneg.formats.text_lines import checked_id
from hardneg.records.errors import DataError
from hardneg.records.wording import counted

_COLUMNS = ("query_id", "q0", "doc_id", "rank", "score", "tag")
_TYPES = {"query_id": pa.large_string(), "doc_id": pa.large_string(), "score": pa.float64()}
_CONTROLS = [bytes([code]) for code in (*range(32), 127) if code not in b"\t\n"]
_MORE_CONTROLS = [chr(code).encode() for code in (*range(128, 160), 0x2028, 0x2029, 0xFEFF)]


class RunLines(NamedTuple):
    """Lines of a run in file order: codes index into ids; int64 [L], int64 [L], float32 [L]."""

    query_ids: list[str]
    query_codes: NDArray[np.int64]
    doc_ids: list[str]
    doc_codes: NDArray[np.int64]
    scores: NDArray[np.float32]


def parse_lines(path: Path, data: bytes, first: int = 1) -> RunLines:
    """The lines in `data`, which `path` holds from line `first` on; separated by blanks or tabs.

    Raises:
        DataError: naming file and line, for bad UTF-8, another number of columns, an id with control characters, a
            score that is not a finite float32, or a document that stands twice for one query.
    """
    lines = _parse_at_once(data)
    return _parse_by_line(path, data, first) if lines is None else lines


def _parse_at_once(data: bytes) -> RunLines | None:
    """Parses a file without any irregularity; None where `_parse_by_line` has to look closer."""
    delimiter = b"\t" if b"\t" in data else b" "
    if not data or not _is_regular(data, delimiter):
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
    query_ids, query_codes = _encoded(table["query_id"])
    doc_ids, doc_codes = _encoded(table["doc_id"])
    scores = _as_float32(table["score"].to_numpy())
    pairs = np.sort(query_codes * len(doc_ids) + doc_codes)
    good = np.isfinite(scores).all() and not (pairs[1:] == pairs[:-1]).any()
    return RunLines(query_ids, query_codes, doc_ids, doc_codes, scores) if good else None


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


def _parse_by_line(path: Path, data: bytes, first: int) -> RunLines:
    query_index: dict[str, int] = {}
    doc_index: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    scores: list[float] = []
    codes: list[tuple[int, int]] = []
    for number, line in enumerate(data.split(b"\n"), first):
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
    return RunLines(list(query_index), pairs[:, 0], list(doc_index), pairs[:, 1], np.array(scores, dtype=np.float32))


def _fields(path: Path, number: int, line: bytes) -> tuple[str, str, float]:
    try:
        fields = [field.decode() for field in line.split(maxsplit=5)]  # a tag may have blanks, as for trec_eval
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
