"""The ids of an index's rows: a file of lines, as Pyserini has it."""

import mmap
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.text_lines import one_word
from hardneg.records import DOC_IDS, ArtifactError, DataError
from hardneg.store import replacing


def write_doc_ids(folder: Path, doc_ids: Iterable[str], count: int) -> None:
    """Writes the id of each of `count` rows, in row order, streaming.

    Raises:
        DataError: an id has white space.
        ArtifactError: there are more or fewer.
    """
    written = 0
    with replacing(folder / DOC_IDS) as file:
        for doc_id in doc_ids:
            if not one_word(doc_id):
                raise DataError(f"document id {doc_id!r} in row {written}: white space cannot be stored")
            file.write(f"{doc_id}\n".encode())
            written += 1
        if written != count:
            raise ArtifactError(f"{folder}: {written} document ids for {count} rows")


class DocIds(Sequence[str]):
    """The lines of a `docid` file, read from a memory map on access.

    Raises:
        ArtifactError: on first access, where they are not as many as `count`.
    """

    def __init__(self, path: Path, count: int | None = None) -> None:
        self._path, self._count = path, count

    @cached_property
    def _text(self) -> NDArray[np.uint8]:
        if not self._path.stat().st_size:
            return np.empty(0, np.uint8)
        with self._path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        ends = np.flatnonzero(self._text == ord("\n"))
        unfinished = len(self._text) > (ends[-1] + 1 if len(ends) else 0)
        all_ends = np.append(ends, len(self._text)) if unfinished else ends
        if self._count is not None and len(all_ends) != self._count:
            reason = f"{len(all_ends)} document ids for {self._count} vectors"
            raise ArtifactError(f"{self._path}: {reason}: copy the index again, or build it again")
        return all_ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        start = int(self._ends[row - 1]) + 1 if row else 0
        return self._text[start : self._ends[row]].tobytes().decode().rstrip("\r")
