"""Rows of plain values in JSON Lines, one JSON list, or Parquet: written whole or not at all, read as a stream."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.atomic_write import replacing
from hardneg.data.json_rows import json_row, read_array
from hardneg.data.text_lines import read_lines
from hardneg.errors import DataError

JsonObject = Mapping[str, Any]
_ROWS = 1024


def write_json_lines(path: Path, rows: Iterable[JsonObject]) -> int:
    """Writes one JSON object a line; returns how many."""
    count = 0
    with _writing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            count += 1
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
    return count


def write_parquet(path: Path, rows: Iterable[JsonObject], schema: pa.Schema) -> int:
    """Writes a Parquet file, a thousand rows at a time; returns how many."""
    stream, count = iter(rows), 0
    with _writing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while block := list(islice(stream, _ROWS)):
            writer.write_table(pa.Table.from_pylist(block, schema))
            count += len(block)
    return count


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_json_lines(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The place (`file:line`) and the object of each line."""
    for number, line in read_lines(path):
        yield f"{path}:{number}", json_row(path, number, line)


def read_json_list(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The place (`file:line`) and the object of each element of one JSON list, as a stream."""
    return ((f"{path}:{number}", row) for number, row in read_array(path))


def read_parquet(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """The place and the values of each row."""
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


def value(place: str, row: JsonObject, name: str, kind: type) -> Any:
    """A field of a row that must be there and of one type."""
    if not isinstance(found := row.get(name), kind):
        raise DataError(f"{place}: field {name!r} must be of type {kind.__name__}, but is {found!r:.60}")
    return found


def texts(place: str, row: JsonObject, name: str) -> list[str]:
    """A field of a row that must be a list of strings."""
    found: list[str] = value(place, row, name, list)
    if not all(isinstance(item, str) for item in found):
        raise DataError(f"{place}: field {name!r} must be a list of strings")
    return found


def numbers(place: str, row: JsonObject, name: str, count: int) -> list[float]:
    """A field of a row that must be a list of `count` numbers."""
    found: list[float] = value(place, row, name, list)
    if not all(isinstance(item, int | float) for item in found):
        raise DataError(f"{place}: field {name!r} must be a list of numbers")
    if len(found) != count:
        raise DataError(f"{place}: {len(found)} {name} for {count} documents")
    return found
