"""Numbers in a line as a .npy file: written part by part, mapped or read in parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records import ArtifactError
from hardneg.store import replacing


def write_header(file: IO[bytes], dtype: str, count: int) -> None:
    """Writes what stands before `count` numbers of a NumPy type; it has the same length for any count."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": (count,)})


@contextmanager
def writing_numbers(path: Path, dtype: str, count: int) -> Iterator[Callable[[NDArray[Any]], None]]:
    """Writes a file of `count` numbers of a NumPy type such as `<f4`, with the function that it gives, part by part."""
    with replacing(path) as file:
        write_header(file, dtype, count)

        def write(part: NDArray[Any]) -> None:
            file.write(np.ascontiguousarray(part, dtype).data)

        yield write


@dataclass(frozen=True)
class NumberFile:
    """A file of numbers of one NumPy type, such as `<f4`."""

    path: Path
    dtype: str

    @cached_property
    def mapped(self) -> np.memmap[Any, Any]:
        """All of them, a read-only memory map.

        Raises:
            ArtifactError: the file is missing, cut short, too long, or of another kind.
        """
        try:
            array: np.memmap[Any, Any] = np.lib.format.open_memmap(self.path, mode="r")
        except (OSError, ValueError, EOFError) as error:
            reason = str(error).split("\n")[0] if self.path.exists() else "no such file"
            raise ArtifactError(f"{self.path}: cannot be read ({reason}): make it again") from error
        whole = array.offset + array.nbytes == self.path.stat().st_size
        if array.ndim != 1 or array.dtype != np.dtype(self.dtype) or not whole:
            raise ArtifactError(f"{self.path}: damaged: make it again")
        return array

    def __len__(self) -> int:
        return len(self.mapped)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """A copy of the numbers from `start` to `stop`; leaves no pages mapped.

        Raises:
            ArtifactError: the file became shorter.
        """
        offset = self.mapped.offset + start * self.mapped.itemsize
        numbers = np.fromfile(self.path, self.dtype, stop - start, offset=offset)
        if len(numbers) != stop - start:
            raise ArtifactError(f"{self.path}: cut short while it was read")
        return numbers
