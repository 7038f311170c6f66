"""Vectors as a .npy array, and the id of each in a file of lines."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hardneg.formats.text_lines import read_lines
from hardneg.formats.vectors import vector_files
from hardneg.records.errors import DataError
from hardneg.records.wording import counted

_SAVE = "write the array with numpy.save"
_OTHERS = (
    (b"PK\x03\x04", f"a .npz archive of arrays; {_SAVE}"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"\x80", f"a pickle, which is never opened here; {_SAVE}"),
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyVectors:
    """An array [N, d] of any floating type, mapped, and a file of N ids, one a line, in the order of its rows."""

    unit: ClassVar[str] = "line"
    path: Path
    id_path: Path
    array: NDArray[Any]

    @classmethod
    def open(cls, path: Path, ids: Path) -> "NpyVectors":
        """The array in `path` with the ids in `ids`. Raises DataError where the array is none."""
        return cls(path, ids, open_npy(path))

    @property
    def dimension(self) -> int:
        """The array's width."""
        return int(self.array.shape[1])

    def ids(self) -> Iterator[tuple[int, str]]:
        """Line numbers and ids. Raises DataError, at the end, where there are more or fewer than vectors."""
        count = 0
        for number, name in read_lines(self.id_path):
            count += 1
            yield number, name
        if count != len(self.array):
            raise DataError(f"{self.id_path}: {counted(count, 'id')} for {counted(len(self.array), 'vector')}")

    def where(self, number: int) -> str:
        """A line of the file of ids."""
        return f"{self.id_path}:{number}"

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors, float32 [n, d]. Raises DataError, with the row, where one is not finite."""
        for start in range(0, len(self.array), vector_files.ROWS):
            with np.errstate(over="ignore"):
                block = np.asarray(self.array[start : start + vector_files.ROWS], np.float32)
            vector_files.check_finite(block, lambda row, start=start: f"{self.path}: row {start + row}")  # type: ignore[misc]
            yield block


def open_npy(path: Path) -> NDArray[Any]:
    """The array of floating numbers [vectors, dimension] in a .npy file, as a read-only memory map.

    Raises:
        DataError: the file is missing, something else, cut off, or holds an array of another kind or shape.
    """
    if not path.is_file():
        raise DataError(f"{path}: {'not a file' if path.exists() else 'no such file'}; give a .npy file of vectors")
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
    if not np.issubdtype(dtype, np.floating) or len(shape) != 2 or shape[1] < 1:
        content = "Python objects" if dtype.hasobject else f"{dtype} of shape {shape}"
        return f"must be floating numbers of shape [vectors, dimension], but is {content}"
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
