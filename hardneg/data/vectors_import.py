"""Vectors that another program made, streamed into a dense index: a .npy array with ids, or Pyserini's JSON Lines."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hardneg.data.flat import FlatWriter
from hardneg.data.hash_index import hash_texts
from hardneg.data.json_rows import json_row
from hardneg.data.text_lines import checked_id, read_lines
from hardneg.errors import DataError
from hardneg.progress import Progress
from hardneg.wording import counted

_ROWS = 4096

Ids = Callable[[], Iterator[tuple[int, str]]]
_SAVE = "write the array with numpy.save"
_OTHERS = (
    (b"PK\x03\x04", f"a .npz archive of arrays; {_SAVE}"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"\x80", f"a pickle, which is never opened here; {_SAVE}"),
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def import_npy(vectors: Path, ids: Path, folder: Path, progress: Progress) -> tuple[int, int]:
    """A .npy array [N, d] of any floating type and a file of N ids, one a line, as a dense index in `folder`.

    Returns:
        The number of vectors and their dimension.

    Raises:
        DataError: the counts differ, an id is repeated or has white space, a vector is not finite, a file is damaged.
    """
    array = open_npy(vectors)
    count, dimension = array.shape
    _check_ids(ids, lambda: read_lines(ids), count)
    with FlatWriter(folder, dimension, count) as writer, progress.task("importing", count, "vectors") as task:
        for number, start in enumerate(range(0, count, _ROWS)):
            block = np.asarray(array[start : start + _ROWS], np.float32)
            _check_finite(block, lambda row, start=start: f"{vectors}: row {start + row}")  # type: ignore[misc]
            writer.write_block(number, start, block)
            task.advance(len(block))
        writer.write_doc_ids(doc_id for _, doc_id in read_lines(ids))
        writer.close()
    return count, dimension


def import_json_lines(path: Path, folder: Path, progress: Progress) -> tuple[int, int]:
    """What `pyserini.encode` writes, lines of `{"id", "contents", "vector"}`, as a dense index in `folder`.

    The file is read twice: once for its ids and their number, once for the vectors.

    Returns:
        The number of vectors and their dimension.

    Raises:
        DataError: with file and line, a line not of this form or of another dimension, an id that is repeated or has
            white space, or a vector that is not finite.
    """
    count = _check_ids(path, lambda: _ids_of(path), None)
    dimension = len(_vector(path, *next(read_lines(path)), None))
    with FlatWriter(folder, dimension, count) as writer, progress.task("importing", count, "vectors") as task:
        start = 0
        lines = read_lines(path)
        for number in range(-(-count // _ROWS)):
            numbered = list(islice(lines, _ROWS))
            block = np.stack([_vector(path, place, line, dimension) for place, line in numbered])
            _check_finite(block, lambda row, numbered=numbered: f"{path}:{numbered[row][0]}")  # type: ignore[misc]
            writer.write_block(number, start, block)
            start += len(block)
            task.advance(len(block))
        writer.write_doc_ids(doc_id for _, doc_id in _ids_of(path))
        writer.close()
    return count, dimension


def _ids_of(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in read_lines(path):
        doc_id = json_row(path, number, line).get("id")
        if not isinstance(doc_id, str):
            raise DataError.at(path, number, f"'id' must be a string, but is {doc_id!r:.40}")
        yield number, doc_id


def _vector(path: Path, number: int, line: str, dimension: int | None) -> NDArray[np.float32]:
    values = json_row(path, number, line).get("vector")
    if not isinstance(values, list) or not values or not set(map(type, values)) <= {int, float}:
        raise DataError.at(path, number, "'vector' must be a list of numbers")
    if dimension is not None and len(values) != dimension:
        raise DataError.at(path, number, f"a vector of dimension {len(values)}; the first has {dimension}")
    try:
        return np.array(values, np.float32)
    except OverflowError as error:
        raise DataError.at(path, number, "'vector' holds a number that is too large") from error


def _check_finite(block: NDArray[np.float32], place: Callable[[int], str]) -> None:
    if not (finite := np.isfinite(block).all(axis=1)).all():
        raise DataError(f"{place(int(np.argmin(finite)))}: the vector is not finite; encode it again")


def _check_ids(path: Path, ids: Ids, wanted: int | None) -> int:
    """Their number. Eight bytes an id are held: hashes tell which may be repeated, a second pass which are."""
    parts = [hash_texts(checked_id(path, number, doc_id) for number, doc_id in block) for block in _blocks(ids())]
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    if wanted is not None and len(hashes) != wanted:
        raise DataError(f"{path}: {counted(len(hashes), 'id')} for {counted(wanted, 'vector')}")
    if not len(hashes):
        raise DataError(f"{path}: there is nothing in it")
    values, counts = np.unique(hashes, return_counts=True)
    if (counts > 1).any():
        _refuse_repeated(path, ids(), hashes, values[counts > 1])
    return len(hashes)


def _blocks(items: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    while block := list(islice(items, _ROWS)):
        yield block


def _refuse_repeated(
    path: Path, ids: Iterator[tuple[int, str]], hashes: NDArray[np.uint64], repeated: NDArray[np.uint64]
) -> None:
    suspects = np.isin(hashes, repeated)
    seen: dict[str, int] = {}
    for (number, doc_id), suspect in zip(ids, suspects, strict=True):
        if suspect and seen.setdefault(doc_id, number) != number:
            raise DataError.at(path, number, f"id {doc_id!r} stands in line {seen[doc_id]} already; keep one")


def open_npy(path: Path) -> NDArray[Any]:
    """The array of floating numbers [vectors, dimension] in a .npy file, as a read-only memory map.

    Raises:
        DataError: the file is missing, something else, cut off, or holds an array of another kind or shape.
    """
    if not path.is_file():
        raise DataError(
            f"{path}: {'not a file' if path.exists() else 'no such file'}; vectors are read from a .npy file"
        )
    try:
        with path.open("rb") as file:
            problem = _problem(file, path.stat().st_size)
        if problem:
            raise DataError(f"{path}: {problem}")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: a damaged .npy file; write it again ({str(error).splitlines()[0]})") from error
    return array


def _problem(file: IO[bytes], size: int) -> str:
    start = file.read(64)
    if not start.startswith(npy.MAGIC_PREFIX):
        return f"not a .npy file, but {_other(start)}"
    file.seek(0)
    read_header = _HEADERS.get(npy.read_magic(file), npy.read_array_header_2_0)
    shape, _, dtype = read_header(file)
    if dtype.kind != "f" or len(shape) != 2 or shape[1] < 1:
        found = "Python objects" if dtype.hasobject else f"{dtype} of shape {shape}"
        return f"must be floating numbers of shape [vectors, dimension], but is {found}"
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    return f"cut off: {size} bytes, and its header says {expected}; write it again" if size < expected else ""


def _other(start: bytes) -> str:
    if not start:
        return "an empty file"
    for mark, what in _OTHERS:
        if start.startswith(mark):
            return what
    try:
        text = start.decode("utf-8", errors="strict" if len(start) < 64 else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    shown = text.splitlines()[0][:30] if text.strip() else ""
    return f"text that begins {shown!r}; {_SAVE}" if shown.isprintable() and shown else f"other bytes; {_SAVE}"
