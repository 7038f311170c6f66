"""Write and memory-map Arrow and .npy files, with checks when a file is opened; find texts by 64-bit hashes."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
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

AGAIN = "rerun the call or command that created it"


def map_batches(path: Path, columns: list[str], whole: bool = False) -> list[pa.RecordBatch]:
    """Memory-map an Arrow file's record batches or, if `whole` is true, read them so that the file can be deleted.

    Raises ArtifactError if the file is missing or truncated, or if its columns are not `columns`.
    """
    try:
        reader = pa.ipc.open_file(pa.OSFile(str(path)) if whole else pa.memory_map(str(path)))
        names = reader.schema.names
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if names != columns:
        raise ArtifactError(f"{path}: expected columns {columns}, found {names}; {AGAIN}")
    return batches


def map_array(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Memory-map a .npy file read-only. If `shape` contains a 0, return an empty array without reading the file.

    Raises ArtifactError if the file is missing, damaged, or not of this shape and dtype.
    """
    if 0 in shape and path.exists():
        return np.empty(shape, dtype)
    array = _mapped(path)
    if array.shape != shape or array.dtype != dtype:
        raise ArtifactError(f"{path}: does not match the corpus in the same folder; {AGAIN}")
    return array


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a .npy file and flush the file to disk."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def write_header(file: IO[bytes], dtype: str, count: int) -> None:
    """Write a .npy header for `count` numbers of type `dtype`. Its size in bytes does not depend on `count`."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": (count,)})


@contextmanager
def writing_numbers(path: Path, dtype: str, count: int) -> Iterator[Callable[[NDArray[Any]], object]]:
    """Create a .npy file of `count` numbers of type `dtype`. Yield a function that appends an array of numbers."""
    with replacing(path) as file:
        write_header(file, dtype, count)
        yield lambda part: file.write(np.ascontiguousarray(part, dtype).data)


@dataclass(frozen=True)
class NumberFile:
    """A one-dimensional .npy file. `dtype` is the NumPy type of its numbers, such as `<f4`."""

    path: Path
    dtype: str

    @cached_property
    def mapped(self) -> np.memmap[Any, Any]:
        """All numbers, [n], as a read-only memory map. Raises ArtifactError if the file is missing or damaged."""
        array = _mapped(self.path)
        whole = array.offset + array.nbytes == self.path.stat().st_size
        if array.ndim != 1 or array.dtype != np.dtype(self.dtype) or not whole:
            raise ArtifactError(f"{self.path}: damaged; {AGAIN}")
        return array

    def __len__(self) -> int:
        return len(self.mapped)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return a copy of numbers `start` to `stop - 1`. Raises ArtifactError if the file is damaged or truncated."""
        offset = self.mapped.offset + start * self.mapped.itemsize
        numbers = np.fromfile(self.path, self.dtype, stop - start, offset=offset)
        if len(numbers) != stop - start:
            raise ArtifactError(f"{self.path}: truncated while it was being read; {AGAIN}")
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


def hash_texts(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text, uint64 [n], the same on all machines. Callers must check for collisions."""
    blake = hashlib.blake2b
    digests = b"".join([blake(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def normalise(text: str) -> str:
    """Return the text stripped, with every run of white space replaced by a single space."""
    return " ".join(text.split())


def find_equal(
    sorted_hashes: NDArray[np.uint64], wanted: NDArray[np.uint64], order: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the range [first, end) that each wanted hash occupies in sorted order: two int64 arrays [len(wanted)].

    The range of an absent hash is empty. order: the indices that sort `sorted_hashes`; None if it is already sorted.
    """
    first = np.searchsorted(sorted_hashes, wanted, "left", sorter=order)
    end = np.searchsorted(sorted_hashes, wanted, "right", sorter=order)
    return first.astype(np.int64), end.astype(np.int64)


def ranges(first: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Expand ranges [first, end) to all their positions and the range index of each one, both int64 [total length]."""
    lengths = end - first
    owner = np.repeat(np.arange(len(first)), lengths)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return first[owner] + np.arange(len(owner)) - begins, owner


def known_to(wanted: NDArray[Any], known: NDArray[Any], owner: NDArray[np.int64], queries: int) -> NDArray[np.bool_]:
    """Return which passages are positives of each query. Copies are included if content hashes are given, not rows.

    Args:
        wanted: passages as rows or content hashes, [M] if they are the same for all B queries, otherwise [B, M].
        known: [K], the positives of all queries in the same form. owner: int64 [K], the query index of each positive.
        queries: B, the number of queries.

    Returns:
        bool [B, M], true where a passage is a positive of the query.
    """
    distinct, number = np.unique(known, return_inverse=True)
    if not len(distinct):
        return np.zeros((queries, wanted.shape[-1]), bool)
    table = np.zeros((queries, len(distinct)), bool)
    table[owner, number] = True
    position = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    known_to_query: NDArray[np.bool_] = table[np.arange(queries)[:, None], position] & (distinct[position] == wanted)
    return known_to_query
