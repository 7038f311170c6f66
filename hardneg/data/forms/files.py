"""Rows of plain values in JSON Lines, one JSON list, or Parquet: written whole or not at all, read as a stream."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.data.lines import read_lines
from hardneg.errors import DataError
from hardneg.replacing import replacing

Record = Mapping[str, Any]
_ROWS = 1024
_CHUNK = 1 << 20


def write_json_lines(path: Path, rows: Iterable[Record]) -> int:
    """Writes one JSON object a line; returns how many."""
    count = 0
    with _writing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            count += 1
    return count


def write_json_list(path: Path, rows: Iterable[Record]) -> int:
    """Writes one JSON list, one element a line; returns how many."""
    count = 0
    with _writing(path) as file:
        file.write(b"[")
        for row in rows:
            file.write((b",\n" if count else b"\n") + json.dumps(row, ensure_ascii=False).encode())
            count += 1
        file.write(b"\n]\n")
    return count


def write_parquet(path: Path, rows: Iterable[Record], schema: pa.Schema) -> int:
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


def read_json_lines(path: Path) -> Iterator[tuple[str, Record]]:
    """The place (`file:line`) and the object of each line."""
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError.at(path, number, f"not JSON: {error}") from error
        yield f"{path}:{number}", _object(f"{path}:{number}", row)


def read_json_list(path: Path) -> Iterator[tuple[str, Record]]:
    """The place and the object of each element of one JSON list; only a few elements are held at a time."""
    for number, element in enumerate(_elements(path), 1):
        place = f"{path}: element {number}"
        yield place, _object(place, element)


def _elements(path: Path) -> Iterator[Any]:
    with _reading(path) as read:
        if not (head := _skip_blanks(read)) == "[":
            raise DataError(f"{path}: must be one JSON list, but begins with {head!r}")
        decoder, rest = json.JSONDecoder(), ""
        wanted = _CHUNK
        while True:
            chunk = read(wanted)
            rest = (rest + chunk).lstrip()
            taken = False
            while rest and rest[0] != "]":
                try:
                    element, end = decoder.raw_decode(rest)
                except ValueError as error:
                    if not chunk:
                        raise DataError(f"{path}: cut off or not JSON: {error}") from error
                    break
                tail = rest[end:].lstrip()
                if not tail and chunk:
                    break
                yield element
                taken = True
                rest = tail[1:].lstrip() if tail.startswith(",") else tail
                if not tail.startswith((",", "]")):
                    raise DataError(f"{path}: cut off or not JSON: after an element must stand ',' or ']'")
            if rest.startswith("]"):
                return
            if not chunk:
                raise DataError(f"{path}: cut off: the list has no end")
            wanted = _CHUNK if taken else wanted * 2


@contextmanager
def _reading(path: Path) -> Iterator[Callable[[int], str]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield file.read
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start} of a part)") from error


def _skip_blanks(read: Callable[[int], str]) -> str:
    while (character := read(1)).isspace():
        pass
    return character


def read_parquet(path: Path) -> Iterator[tuple[str, Record]]:
    """The place and the values of each row."""
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from error


def _object(place: str, row: Any) -> Record:
    if not isinstance(row, dict):
        raise DataError(f"{place}: must be an object, but is {type(row).__name__}")
    return row


def value(place: str, row: Record, name: str, kind: type) -> Any:
    """A field of a row that must be there and of one type."""
    if not isinstance(found := row.get(name), kind):
        raise DataError(f"{place}: field {name!r} must be of type {kind.__name__}, but is {found!r:.60}")
    return found


def texts(place: str, row: Record, name: str) -> list[str]:
    """A field of a row that must be a list of strings."""
    found: list[str] = value(place, row, name, list)
    if not all(isinstance(item, str) for item in found):
        raise DataError(f"{place}: field {name!r} must be a list of strings")
    return found


def numbers(place: str, row: Record, name: str, count: int) -> list[float]:
    """A field of a row that must be a list of `count` numbers."""
    found: list[float] = value(place, row, name, list)
    if not all(isinstance(item, int | float) for item in found):
        raise DataError(f"{place}: field {name!r} must be a list of numbers")
    if len(found) != count:
        raise DataError(f"{place}: {len(found)} {name} for {count} documents")
    return found
