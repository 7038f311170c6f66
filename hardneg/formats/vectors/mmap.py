"""Arrow and .npy files that are memory-mapped: written whole, opened with a check, never read whole."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.records import ArtifactError

AGAIN = "make it again: the same call or command does"


def map_batches(path: Path, columns: list[str], whole: bool = False) -> list[pa.RecordBatch]:
    """The record batches of an Arrow file, not read yet; `whole`: read into memory, whatever becomes of the file.

    Raises:
        ArtifactError: it is missing, cut off, or has other columns.
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


def read_batches(path: Path, columns: list[int]) -> Callable[[int], pa.RecordBatch]:
    """A function that reads one record batch, some columns of it, into memory of its own.

    For passing through a file: pages of a map would count as this process's memory until the system needs them.
    """
    options = pa.ipc.IpcReadOptions(included_fields=columns)
    reader = pa.ipc.open_file(pa.OSFile(str(path)), options=options)
    read: Callable[[int], pa.RecordBatch] = reader.get_batch
    return read


def map_array(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """An array of a .npy file, mapped.

    Raises:
        ArtifactError: it is missing, cut off, or of another shape or dtype.
    """
    if 0 in shape and path.exists():
        return np.empty(shape, dtype)
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error
    if array.shape != shape or array.dtype != dtype:
        raise ArtifactError(f"{path}: does not belong to the corpus beside it; {AGAIN}")
    return array


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes a .npy file and waits until it is on disk."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def _unreadable(path: Path, error: Exception) -> ArtifactError:
    reason = (str(error).split("\n")[0] if path.exists() else "") or "no such file"
    return ArtifactError(f"{path}: cannot be read ({reason}); {AGAIN}")
