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

from hardneg.records.errors import DataError

GZIP = b"\x1f\x8b"
"""The first bytes of a gzipped file."""
_SAMPLE, _CHUNK = 1 << 22, 1 << 20
_OTHER_FORMATS = {
    "a packed file or archive; unpack it": (b"pk\x03\x04", b"\x28\xb5\x2f\xfd", b"bzh91ay&sy", b"\xfd7zxz\x00"),
    "Parquet; dataset hf reads folders of that": (b"par1\x15",),
    "UTF-16 or UTF-32; save it as UTF-8": (b"\xff\xfe", b"\xfe\xff"),
    "a pointer of Git LFS; fetch the file itself with `git lfs pull`": (b"version https://git-lfs",),
    "a web page; fetch the file again": (b"<!doctype html", b"<html"),
}
_BLANKS = re.compile(r"[ \t\r\n]*")
_LONGEST, _TAIL = 1 << 26, 16
_DECODER = json.JSONDecoder()
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


def other_format(start: bytes) -> str:
    """The format of a file that is not UTF-8 text, by its first bytes; empty where they look like text."""
    start = start[:64].lower()
    if len(start) > 7 and not any(start[1::2]) and all(start[::2]):
        return "UTF-16; save it as UTF-8"
    return next((named for named, marks in _OTHER_FORMATS.items() if start.startswith(marks)), "")


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

    Raises:
        DataError: the file cannot be opened.
    """
    number = 0
    with _opened(path) as (_, file):
        try:
            if other := other_format(file.peek(64)):
                yield 0, DataError(f"{path}: not a text file but {other}")
                return
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    yield number, DataError.at(path, number, f"not UTF-8 ({error.reason} at byte {error.start})")
                    continue
                if text and not text.isspace():
                    yield number, text
        except (EOFError, OSError, zlib.error) as error:
            yield number + 1, DataError.at(path, number + 1, f"cannot be read: {error}")


def read_bytes(path: Path) -> Iterator[bytes]:
    """A file's bytes in pieces of about a megabyte, without a mark of their order; plain or gzip.

    Raises:
        DataError: the file is missing, is damaged gzip, or of another format.
    """
    line = 1
    with _opened(path) as (_, file):
        try:
            if other := other_format(file.peek(64)):
                raise DataError(f"{path}: not a text file but {other}")
            if file.peek(3).startswith(codecs.BOM_UTF8):
                file.read(3)
            while chunk := file.read(_CHUNK):
                line += chunk.count(b"\n")
                yield chunk
        except (EOFError, OSError, zlib.error) as error:
            raise DataError.at(path, line, f"cannot be read: {error}; fetch it again") from error


def read_chunks(path: Path) -> Iterator[str]:
    """A file's text in pieces of about a megabyte, for what has no lines. Raises as `read_bytes`, and if not UTF-8."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    try:
        for chunk in read_bytes(path):
            text = decoder.decode(chunk)
            line += text.count("\n")
            yield text
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
        raise DataError.at(path, line, f"not UTF-8 ({error.reason})") from error


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

    Raises:
        DataError: what has the name is no file, or `folder` is one.
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
        return _object(path, number, _DECODER.decode(line))
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
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError.at(path, number, f"{key!r} must be a list of strings, not {json.dumps(values)[:40]}")
    return tuple(_text(path, number, key, value) for value in values)


def read_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file that holds one JSON array, each with the line it starts on, as a stream.

    Memory: one object and a megabyte or two, however long the file and its lines.
    Raises DataError where the file is cut off, not JSON, or not an array of objects.
    """
    chunks, text, at, line = read_chunks(path), "", 0, 1

    def more() -> bool:
        """Reads on, as much again as is held, and forgets what lies before the position."""
        nonlocal text, at
        pieces, size = [text[at:]], 0
        for chunk in chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size > len(pieces[0]):
                break
        text, at = "".join(pieces), 0
        return size > 0

    def mark() -> str:
        """Moves to the next character that is not white space; nothing at the end of the file."""
        nonlocal at, line
        while True:
            end = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
            line, at = line + text.count("\n", at, end), end
            if at < len(text) or not more():
                return text[at : at + 1]

    expected, ended = "[", False
    while not ended:
        if (found := mark()) != expected and not (expected == "," and found == "]"):
            reason = "not JSON: a comma is missing" if found else "cut off: the array has no end"
            raise DataError.at(path, line, "this file must hold one JSON array" if expected == "[" else reason)
        at, ended = at + 1, found == "]"
        if expected == "[" and mark() == "]":
            at, ended = at + 1, True
        while not ended:
            mark()
            try:
                item, end = _DECODER.raw_decode(text, at)
            except json.JSONDecodeError as error:
                whole = not (error.msg.startswith("Unterminated string") or error.pos >= len(text) - _TAIL)
                if whole or len(text) > _LONGEST or not more():
                    line += text.count("\n", at, error.pos)
                    raise DataError.at(path, line, f"not JSON: {error.msg}") from error
                continue
            except (ValueError, RecursionError) as error:
                raise DataError.at(path, line, f"not JSON: {error}") from error
            yield line, _object(path, line, item)
            line, at, expected = line + text.count("\n", at, end), end, ","
            break
    if mark():
        raise DataError.at(path, line, "not JSON: there is more after the array's end")


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
