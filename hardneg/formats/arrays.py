"""Arrow and .npy files that are memory-mapped: written whole or part by part, opened with a check, never read whole."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.records import ArtifactError
from hardneg.store import replacing

AGAIN = "make it again: the same call or command does"


def map_batches(path: Path, columns: list[str], whole: bool = False) -> list[pa.RecordBatch]:
    """The record batches of an Arrow file, not read yet; `whole`: read into memory, whatever becomes of the file.

    Raises ArtifactError where it is missing, cut off, or has other columns.
    """
    try:
        reader = pa.ipc.open_file(pa.OSFile(str(path)) if whole else pa.memory_map(str(path)))
        names = reader.schema.names
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if names != columns:
        raise ArtifactError(f"{path}: has columns {names} instead of {columns}; {AGAIN}")
    return batches


def map_array(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """An array of a .npy file, mapped. Raises ArtifactError where it is missing, cut off, or of another kind."""
    if 0 in shape and path.exists():
        return np.empty(shape, dtype)
    array = _mapped(path)
    if array.shape != shape or array.dtype != dtype:
        raise ArtifactError(f"{path}: does not belong to the corpus beside it; {AGAIN}")
    return array


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes a .npy file and waits until it is on disk."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def write_header(file: IO[bytes], dtype: str, count: int) -> None:
    """Writes what stands before `count` numbers of a NumPy type; it has the same length for any count."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": (count,)})


@contextmanager
def writing_numbers(path: Path, dtype: str, count: int) -> Iterator[Callable[[NDArray[Any]], object]]:
    """Writes a file of `count` numbers of a NumPy type such as `<f4`, with the function that it gives, part by part."""
    with replacing(path) as file:
        write_header(file, dtype, count)
        yield lambda part: file.write(np.ascontiguousarray(part, dtype).data)


@dataclass(frozen=True)
class NumberFile:
    """A .npy file of numbers in a line, of one NumPy type, such as `<f4`."""

    path: Path
    dtype: str

    @cached_property
    def mapped(self) -> np.memmap[Any, Any]:
        """All of them, a read-only memory map. Raises ArtifactError where the file is missing or damaged."""
        array = _mapped(self.path)
        whole = array.offset + array.nbytes == self.path.stat().st_size
        if array.ndim != 1 or array.dtype != np.dtype(self.dtype) or not whole:
            raise ArtifactError(f"{self.path}: damaged; {AGAIN}")
        return array

    def __len__(self) -> int:
        return len(self.mapped)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """A copy of the numbers from `start` to `stop`; leaves no pages mapped. Raises ArtifactError if cut short."""
        offset = self.mapped.offset + start * self.mapped.itemsize
        numbers = np.fromfile(self.path, self.dtype, stop - start, offset=offset)
        if len(numbers) != stop - start:
            raise ArtifactError(f"{self.path}: cut short while it was read")
        return numbers


def _mapped(path: Path) -> np.memmap[Any, Any]:
    try:
        array: np.memmap[Any, Any] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error
    return array


def _unreadable(path: Path, error: Exception) -> ArtifactError:
    reason = (str(error).split("\n")[0] if path.exists() else "") or "no such file"
    return ArtifactError(f"{path}: cannot be read ({reason}); {AGAIN}")
