"""JSON objects, one a line or in one array, and their fields; a mistake is a `DataError` with its line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardneg.formats.text_lines import checked_id, read_chunks
from hardneg.records.errors import DataError

_LONGEST = 1 << 26
_TAIL = 16


class _Doubled(dict[str, Any]):
    """An object in which a key stands twice."""

    twice: str


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    doubled, names = _Doubled(row), [name for name, _ in pairs]
    doubled.twice = next(name for name in names if names.count(name) > 1)
    return doubled


_DECODER = json.JSONDecoder(object_pairs_hook=_paired)


def json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    """The object that a line holds. Raises DataError where it holds none, or one with a key that stands twice."""
    try:
        row = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise DataError.at(path, number, f"not JSON: {_json_fault(error, line)}") from error
    return _object(path, number, row)


def _json_fault(error: Exception, line: str) -> str:
    """What is wrong with a line that is not JSON."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, json.JSONDecodeError):
        return "a number in it is too long"
    if line.strip() == "{":
        return "an object over several lines; write each in a line of its own"
    if line.startswith("["):
        return "an array; write one object a line"
    return f"{error.msg} (column {error.colno})"


def text_field(path: Path, number: int, row: dict[str, Any], key: str) -> str:
    """The text under `key`. Raises DataError where there is none, or it is no text."""
    if key not in row:
        raise DataError.at(path, number, f"no {key!r} in this object")
    return _text(path, number, key, row[key])


def title_field(path: Path, number: int, row: dict[str, Any]) -> str:
    """The text under `title`, empty where that is missing or null. Raises DataError where it is no text."""
    return "" if row.get("title") is None else text_field(path, number, row, "title")


def id_field(path: Path, number: int, row: dict[str, Any], *keys: str) -> str:
    """The id under the first of `keys` that is there; a whole number is taken as text.

    Raises:
        DataError: there is none, or it is not one word.
    """
    key = next((key for key in keys if key in row), keys[0])
    if isinstance(row.get(key), int) and not isinstance(row[key], bool):
        return str(row[key])
    return checked_id(path, number, text_field(path, number, row, key))


def texts_field(path: Path, number: int, row: dict[str, Any], key: str) -> tuple[str, ...]:
    """The list of texts under `key`, empty where it is missing. Raises DataError where it is something else."""
    values = row.get(key) or []
    if not isinstance(values, list):
        raise DataError.at(path, number, f"{key!r} must be a list of strings, not {json.dumps(values)[:40]}")
    if odd := [value for value in values if not isinstance(value, str)]:
        raise DataError.at(path, number, f"{key!r} must be a list of strings, and holds {json.dumps(odd[0])[:40]}")
    return tuple(_text(path, number, key, value) for value in values)


def read_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file that holds one JSON array, each with the line it starts on, as a stream.

    Memory: one object and a megabyte or two, however long the file and its lines.

    Raises:
        DataError: the file is cut off, not JSON, or not an array of objects.
    """
    array = _Array(path)
    yield from array.items()


class _Array:
    """A window on the text of one array: `at` is the position in `window`, `line` its line."""

    def __init__(self, path: Path) -> None:
        self._path, self._chunks = path, read_chunks(path)
        self._window, self._at, self._line = "", 0, 1

    def items(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._next() != "[":
            raise self._error("this file must hold one JSON array")
        self._move(self._at + 1)
        if self._next() == "]":
            self._end()
            return
        while True:
            self._next()
            number, item = self._line, self._item()
            yield number, _object(self._path, number, item)
            mark = self._next()
            if mark not in (",", "]"):
                raise self._error("cut off: the array has no end" if not mark else "not JSON: a comma is missing")
            if mark == "]":
                self._end()
                return
            self._move(self._at + 1)

    def _item(self) -> Any:
        while True:
            try:
                item, end = _DECODER.raw_decode(self._window, self._at)
                self._move(end)
                return item
            except json.JSONDecodeError as error:
                whole = not (error.msg.startswith("Unterminated string") or error.pos >= len(self._window) - _TAIL)
                if whole or len(self._window) > _LONGEST or not self._more():
                    line = self._line + self._window.count("\n", self._at, error.pos)
                    raise DataError.at(self._path, line, f"not JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise self._error(f"not JSON: {_json_fault(error, '')}") from error

    def _next(self) -> str:
        """The next character that is not white space, where the window then is; nothing at the end of the file."""
        while True:
            rest = self._at
            while rest < len(self._window) and self._window[rest] in " \t\r\n":
                rest += 1
            self._move(rest)
            if rest < len(self._window):
                return self._window[rest]
            if not self._more():
                return ""

    def _move(self, position: int) -> None:
        self._line += self._window.count("\n", self._at, position)
        self._at = position

    def _more(self) -> bool:
        """Reads on, as much again as the window holds, and forgets what lies before it."""
        self._window, self._at = self._window[self._at :], 0
        pieces, size = [self._window], 0
        for chunk in self._chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size > len(self._window):
                break
        self._window = "".join(pieces)
        return size > 0

    def _end(self) -> None:
        self._move(self._at + 1)
        if self._next():
            raise self._error("not JSON: there is more after the array's end")

    def _error(self, reason: str) -> DataError:
        return DataError.at(self._path, self._line, reason)


def _object(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError.at(path, number, "a JSON value that is not an object")
    if isinstance(row, _Doubled):
        raise DataError.at(path, number, f"the key {row.twice!r} stands twice in this object; keep one")
    return row


def _text(path: Path, number: int, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError.at(path, number, f"{key!r} must be a string, not {json.dumps(value)[:40]}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError.at(path, number, f"{key!r} holds half of a surrogate pair") from error
    return value
