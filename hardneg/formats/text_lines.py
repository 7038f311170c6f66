"""Lines of text files, plain or gzip, with their numbers; what cannot be read is a `DataError`."""

import codecs
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from hardneg.records.errors import DataError

GZIP = b"\x1f\x8b"
"""The first bytes of a gzipped file."""
_SAMPLE = 1 << 22
LONGEST_LINE = 1 << 30
"""Bytes of a line; a pipe may send one that has no end."""
_OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd; unpack it"),
    (b"BZh91AY&SY", "packed with bzip2; unpack it"),
    (b"\xfd7zXZ\x00", "packed with xz; unpack it"),
    (b"PAR1\x15", "Parquet; dataset hf reads folders of that"),
    (b"\xff\xfe\0\0", "UTF-32; save it as UTF-8"),
    (b"\xff\xfe", "UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16; save it as UTF-8"),
    (b"version https://git-lfs", "a pointer of Git LFS; fetch the file itself with `git lfs pull`"),
    (b"<!doctype html", "a web page; fetch the file again"),
    (b"<html", "a web page; fetch the file again"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedReader, io.BufferedReader]]:
    refuse_device(path)
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
    with raw:
        packed = raw.peek(2)[:2] == GZIP
        yield raw, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))) if packed else raw


def other_format(start: bytes) -> str:
    """The format of a file that is not UTF-8 text, by its first bytes; empty where they look like text."""
    start = start[:64]
    if len(start) > 7 and not any(start[1::2]) and all(start[::2]):
        return "UTF-16; save it as UTF-8"
    return next((format_ for mark, format_ in _OTHER_FORMATS if start.lower().startswith(mark.lower())), "")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers, from 1, and lines without their ends; blank lines are passed over.

    Gzip is recognised by content, not by name.

    Raises:
        DataError: the file is missing, is damaged gzip, or a line is not UTF-8.
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
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 2), b""), 1):
                if len(line.rstrip(b"\r\n")) > LONGEST_LINE:
                    yield number, DataError.at(path, number, f"a line of over {LONGEST_LINE:,} bytes")
                    return
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    reason = f"not UTF-8 ({error.reason} at byte {error.start})"
                    yield number, DataError.at(path, number, reason)
                    continue
                if text and not text.isspace():
                    yield number, text
        except (EOFError, OSError, zlib.error) as error:
            yield number + 1, DataError.at(path, number + 1, f"cannot be read: {error}")


def read_chunks(path: Path, size: int = 1 << 20) -> Iterator[str]:
    """A file's text in pieces of about `size` bytes, for what has no lines; plain or gzip.

    Raises:
        DataError: the file is missing, is damaged gzip, or is not UTF-8.
    """
    decoder, line = codecs.getincrementaldecoder("utf-8-sig")(), 1
    with _opened(path) as (_, file):
        try:
            if other := other_format(file.peek(64)):
                raise DataError(f"{path}: not a text file but {other}")
            while chunk := file.read(size):
                text = decoder.decode(chunk)
                line += text.count("\n")
                yield text
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            raise DataError.at(path, line, f"not UTF-8 ({error.reason})") from error
        except (EOFError, OSError, zlib.error) as error:
            raise DataError.at(path, line, f"cannot be read: {error}") from error


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
            raise DataError(f"{path}: {_file_type(path)}, where a file is expected")
    return None


def no_folder(path: Path) -> DataError:
    """The error for a path that is none of a folder."""
    reason = f"{_file_type(path)}, where a folder is expected" if os.path.lexists(path) else "no such folder"
    return DataError(f"{path}: {reason}")


def refuse_device(path: Path) -> None:
    """Raises DataError for a device instead of a file: its bytes may have no end."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it says so
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DataError(f"{path}: {_file_type(path)}, where a file is expected")


def _file_type(path: Path) -> str:
    """What is at a path instead of a file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return f"a link to {os.readlink(path)}, which cannot be followed ({error.strerror})"
    types = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe, which cannot be read twice",
        stat.S_IFSOCK: "a socket",
    }
    return types.get(stat.S_IFMT(mode), "a device")


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
