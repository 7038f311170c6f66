"""Lines of text files, plain or gzip, and JSON objects; a mistake is a `DataError` with file and line."""

import codecs
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hardneg.records import DataError

GZIP = b"\x1f\x8b"
"""The first bytes of a gzipped file."""
_SAMPLE, _CHUNK = 1 << 22, 1 << 20
_NOT_TEXT = "not UTF-8 ({0.reason} at byte {0.start}): save it as text in UTF-8, unpacked"
_OTHERS = {
    b"pk\x03\x04": "a packed archive; unpack it",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with `git lfs pull`",
    b"<!doctype html": "a web page; fetch the file again",
    b"<html": "a web page; fetch the file again",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class Unplaced(DataError):
    """A mistake in a record whose file is not known here: `placed` finds it by the record's type and first fields.

    again: the second such record is meant.
    """

    def __init__(self, record: tuple[object, ...], message: str, again: bool = False) -> None:
        super().__init__(message)
        self.record, self.again = record, again


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedReader, io.BufferedReader]]:
    """The file as it is, and unpacked."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
    with raw:
        packed = raw.peek(2)[:2] == GZIP
        yield raw, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))) if packed else raw


def check_text(path: Path, start: bytes, meant: str = "") -> None:
    """Raise DataError where a file begins, in 64 bytes, as one that is no text of ours, unless that is `meant`."""
    found = next((other for mark, other in _OTHERS.items() if start[:64].lower().startswith(mark)), "")
    if found and not (meant and found.startswith(meant)):
        raise DataError(f"{path}: not a text file but {found}")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers, from 1, and lines without their ends; blank lines are passed over.

    Gzip is recognised by content. Raises DataError where the file is missing or damaged, or a line is not UTF-8.
    """
    for number, line in lines_or_errors(path):
        if isinstance(line, DataError):
            raise line
        yield number, line


def lines_or_errors(path: Path) -> Iterator[tuple[int, str | DataError]]:
    """As `read_lines`, but an unreadable line is yielded as an error, and reading goes on where it can.

    Raises DataError where the file cannot be opened.
    """
    number = 0
    with _opened(path) as (_, file):
        try:
            check_text(path, file.peek(64))
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    yield number, DataError.at(path, number, _NOT_TEXT.format(error))
                    continue
                if text and not text.isspace():
                    yield number, text
        except (EOFError, OSError, zlib.error) as error:
            yield number + 1, DataError.at(path, number + 1, f"cannot be read: {error}")


def read_bytes(path: Path) -> Iterator[bytes]:
    """A file's bytes in pieces of about a megabyte, without a mark of their order; plain or gzip.

    Raises DataError where the file is missing, or is damaged gzip.
    """
    line = 1
    with _opened(path) as (_, file):
        try:
            check_text(path, file.peek(64))
            if file.peek(3).startswith(codecs.BOM_UTF8):
                file.read(3)
            while chunk := file.read(_CHUNK):
                line += chunk.count(b"\n")
                yield chunk
        except (EOFError, OSError, zlib.error) as error:
            raise DataError.at(path, line, f"cannot be read: {error}; fetch it again") from error


def estimate_lines(path: Path) -> int:
    """About how many lines a file has, from its first four megabytes; exact for smaller files."""
    with _opened(path) as (raw, file):
        try:
            sample = file.read(_SAMPLE)
            ended = not file.read(1)
        except (EOFError, OSError, zlib.error):
            return 0
        consumed = raw.tell()
    lines = sample.count(b"\n")
    if ended:
        return lines + (not sample.endswith(b"\n") and bool(sample))
    return int(lines * path.stat().st_size / max(consumed, 1))


def find_file(folder: Path, name: str) -> Path | None:
    """The file `name` in a folder, or else `name.gz`; None where there is neither.

    Raises DataError what has the name is no file, or `folder` is one.
    """
    if folder.is_file():
        raise no_folder(folder)
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
        if os.path.lexists(path):
            raise DataError(f"{path}: is there, but is no file")
    return None


def no_folder(path: Path) -> DataError:
    """The error for a path that is none of a folder."""
    return DataError(f"{path}: {'a file, where a folder is expected' if path.exists() else 'no such folder'}")


def one_word(text: str) -> bool:
    """Whether a text can be an id: not empty, and without ASCII's white space, control characters and marks."""
    return text != "" and " " not in text and (text.isprintable() or not _CONTROL.search(text))


def columns(line: str) -> list[str]:
    """What stands between ASCII's white space: other spaces are letters, as for trec_eval."""
    return line.split() if line.isascii() else [cell.decode() for cell in line.encode().split()]


def id_problem(name: str) -> str:
    """The message about an id that is not `one_word`."""
    return f"id {name!r:.80} is empty or holds white space or control characters"


def checked_id(where: Path | str, number: int, name: str) -> str:
    """An id of line or row `number`, as it is. Raises DataError where it is not `one_word`."""
    if not one_word(name):
        raise DataError.at(where, number, id_problem(name))
    return name


def json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    """The object that a line holds. Raises DataError where it holds none."""
    try:
        return _object(path, number, json.loads(line))
    except (ValueError, RecursionError) as error:
        several = line.strip() == "{" or line.startswith("[")
        reason = (
            "an object over several lines, or an array; write one object a line"
            if several
            else getattr(error, "msg", error)
        )
        raise DataError.at(path, number, f"not JSON: {reason}") from error


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

    Raises DataError where there is none, or it is not one word.
    """
    key = next((key for key in keys if key in row), keys[0])
    if isinstance(row.get(key), int) and not isinstance(row[key], bool):
        return str(row[key])
    return checked_id(path, number, text_field(path, number, row, key))


def texts_field(path: Path, number: int, row: dict[str, Any], key: str) -> tuple[str, ...]:
    """The list of texts under `key`, empty where it is missing. Raises DataError where it is something else."""
    values = row.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError.at(path, number, f"{key!r} must be a list of strings, not {json.dumps(values)[:40]}")
    return tuple(_text(path, number, key, value) for value in values)


def read_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file that holds one JSON array, each with its number, from 1, as a stream.

    Raises DataError where the file is cut off, not JSON, or not an array of objects.
    """
    import ijson

    number = 0
    with _opened(path) as (_, file):
        try:
            if file.peek(3).startswith(codecs.BOM_UTF8):
                file.read(3)
            if not file.peek(64).lstrip().startswith(b"["):
                raise DataError(f"{path}: not JSON: this file must hold one JSON array")
            for number, item in enumerate(ijson.items(file, "item", use_float=True), 1):
                yield number, _object(path, number, item)
        except (ijson.JSONError, EOFError, OSError, zlib.error) as error:
            what = "not JSON" if isinstance(error, ijson.JSONError) else "cannot be read"
            reason = str(error).split("\n")[0]
            raise DataError(f"{path}: {what} after object {number}: {reason}; fetch it again") from error


def _object(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError.at(path, number, "a JSON value that is not an object")
    return row


def _text(path: Path, number: int, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError.at(path, number, f"{key!r} must be a string, not {json.dumps(value)[:40]}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError.at(path, number, f"{key!r} holds half of a surrogate pair") from error
    return value
