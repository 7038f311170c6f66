"""Read lines and JSON objects from text files, plain or gzip. Mistakes raise `DataError` with file and line."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hardneg.records import DataError

GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
"""The first bytes of a gzip file, and of UTF-8 text with a byte order mark."""
_SAMPLE, _CHUNK = 1 << 22, 1 << 20
_NOT_TEXT = "not UTF-8 ({0.reason} at byte {0.start}); save it as uncompressed UTF-8 text"
_OTHERS = {
    b"pk\x03\x04": "an archive; unpack it",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with `git lfs pull`",
    b"<!doctype html": "a web page; download the file again",
    b"<html": "a web page; download the file again",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class Unplaced(DataError):
    """A mistake in a record whose file and line are unknown; `locating` finds them by the record's type and fields.

    again: whether the mistake is in the second record with this id.
    """

    def __init__(self, record: tuple[object, ...], message: str, again: bool = False) -> None:
        super().__init__(message)
        self.record, self.again = record, again


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedReader, io.BufferedReader]]:
    """The raw file, and its decompressed stream."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error
    with raw:
        packed = raw.peek(2)[:2] == GZIP
        yield raw, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))) if packed else raw


def check_text(path: Path, start: bytes, meant: str = "") -> None:
    """Raise DataError if a file starts like an archive, web page or Git LFS pointer. meant: one of these to allow."""
    found = next((other for mark, other in _OTHERS.items() if start[:64].lower().startswith(mark)), "")
    if found and not (meant and found.startswith(meant)):
        raise DataError(f"{path}: expected a text file, found {found}")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line numbers, from 1, and lines without line endings; blank lines are skipped.

    Gzip is detected by content. Raises DataError if the file is missing or damaged, or a line is not UTF-8.
    """
    for number, line in lines_or_errors(path):
        if isinstance(line, DataError):
            raise line
        yield number, line


def lines_or_errors(path: Path) -> Iterator[tuple[int, str | DataError]]:
    """Yield lines as `read_lines` does, but yield a DataError for an unreadable line and continue if possible.

    Raises DataError if the file cannot be opened, or is an archive, a web page or a Git LFS pointer.
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
            yield number + 1, DataError.at(path, number + 1, f"cannot be read ({error})")


def read_bytes(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, plain or gzip, about a megabyte at a time, without a byte order mark.

    Raises DataError if the file is missing or damaged.
    """
    line = 1
    with _opened(path) as (_, file):
        try:
            check_text(path, file.peek(64))
            if file.peek(3).startswith(_BOM):
                file.read(3)
            while chunk := file.read(_CHUNK):
                line += chunk.count(b"\n")
                yield chunk
        except (EOFError, OSError, zlib.error) as error:
            raise DataError.at(path, line, f"cannot be read ({error}); download it again") from error


def estimate_lines(path: Path) -> int:
    """Estimate the lines in a file from its first 4 MiB: exactly for smaller files, 0 if the file is damaged."""
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
    """The file `name` in a folder, or else `name.gz`; None if neither exists.

    Raises DataError if the path exists but is not a file, or `folder` is a file.
    """
    if folder.is_file():
        raise no_folder(folder)
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
        if path.is_symlink() or path.exists():
            raise DataError(f"{path}: not a file; replace it with the file, or remove it")
    return None


def no_folder(path: Path) -> DataError:
    """Return the error for a path that is missing or not a folder."""
    return DataError(f"{path}: {'expected a folder, found a file' if path.exists() else 'no such folder'}")


def one_word(text: str) -> bool:
    """Return whether a string is a valid id: not empty, and without ASCII white space or control characters."""
    return text != "" and " " not in text and (text.isprintable() or not _CONTROL.search(text))


def columns(line: str) -> list[str]:
    """Split a line at ASCII white space; as in trec_eval, other white space is part of a word."""
    return line.split() if line.isascii() and line.isprintable() else [cell.decode() for cell in line.encode().split()]


def id_problem(name: str) -> str:
    """Return the message for an id that `one_word` rejects."""
    return f"id {name!r:.80} is empty or contains white space or control characters"


def checked_id(where: Path | str, number: int, name: str) -> str:
    """Return an id unchanged. Raises DataError, with line or row `number` of file `where`, if the id is invalid."""
    if not one_word(name):
        raise DataError.at(where, number, id_problem(name))
    return name


def json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    """Parse the JSON object in a line. Raises DataError if the line is not a JSON object."""
    try:
        return _object(path, number, json.loads(line))
    except (ValueError, RecursionError) as error:
        several = line.strip() == "{" or line.startswith("[")
        lines = "expected one JSON object per line, found an array or an object over several lines"
        raise DataError.at(path, number, lines if several else f"not JSON ({getattr(error, 'msg', error)})") from error


def text_field(path: Path, number: int, row: dict[str, Any], key: str) -> str:
    """The text under `key` in a row. Raises DataError if it is missing, not a string, or not valid Unicode."""
    if key not in row:
        raise DataError.at(path, number, f"missing field {key!r}")
    return _text(path, number, key, row[key])


def title_field(path: Path, number: int, row: dict[str, Any]) -> str:
    """The text under `title` in a row; empty if missing or null. Raises DataError if it is not a valid string."""
    return "" if row.get("title") is None else text_field(path, number, row, "title")


def id_field(path: Path, number: int, row: dict[str, Any], *keys: str) -> str:
    """The id under the first of `keys` that a row has; an integer is converted to a string.

    Raises DataError if the id is missing or invalid.
    """
    key = next((key for key in keys if key in row), keys[0])
    if isinstance(row.get(key), int) and not isinstance(row[key], bool):
        return str(row[key])
    return checked_id(path, number, text_field(path, number, row, key))


def texts_field(path: Path, number: int, row: dict[str, Any], key: str) -> tuple[str, ...]:
    """The texts listed under `key` in a row; empty if missing or null. Raises DataError if not a list of strings."""
    values = row.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError.at(path, number, f"{key!r} must be a list of strings, not {json.dumps(values)[:40]}")
    return tuple(_text(path, number, key, value) for value in values)


def read_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the objects of a file that contains one JSON array, numbered from 1.

    Raises DataError if the file is truncated, not JSON, or not an array of objects.
    """
    import ijson

    number = 0
    with _opened(path) as (_, file):
        try:
            if file.peek(3).startswith(_BOM):
                file.read(3)
            if not file.peek(64).lstrip().startswith(b"["):
                raise DataError(f"{path}: not a JSON array; expected a list of objects")
            for number, item in enumerate(ijson.items(file, "item", use_float=True), 1):
                yield number, _object(path, number, item)
        except (ijson.JSONError, EOFError, OSError, zlib.error) as error:
            what = "not JSON" if isinstance(error, ijson.JSONError) else "cannot be read"
            reason = str(error).split("\n")[0]
            raise DataError(f"{path}: {what} after object {number} ({reason}); download it again") from error


def _object(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError.at(path, number, "expected a JSON object")
    return row


def _text(path: Path, number: int, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError.at(path, number, f"{key!r} must be a string, not {json.dumps(value)[:40]}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError.at(path, number, f"{key!r} contains an unpaired surrogate; remove it") from error
    return value
