"""Index folders, written row by row: dense vectors as Pyserini's `FaissSearcher` opens them, and the ids of the rows.

`index` is a flat inner-product index of faiss: 45 bytes of header and raw float32 rows, read by memory map, without
faiss. `docid` has the id of each row.
"""

import mmap
import struct
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from hardneg import store
from hardneg.formats.text_lines import one_word
from hardneg.records import DOC_IDS, ArtifactError, DataError, UsageError

# magic, dimension, rows, two unused fields, is_trained, metric (0: inner product), number of floats
_HEADER = struct.Struct("<4siqqqBiQ")
FLAT = b"IxFI"
"""The first bytes of a flat inner-product index."""
TOKEN_OFFSETS = "offsets.npy"
"""The file of the first vector of each document in a folder of token vectors (the package hardneg-multi-vector)."""
_UNUSED = 1 << 20
_FLOAT = 4


class DocIds(Sequence[str]):
    """The lines of a `docid` file, read from a memory map on access.

    Raises ArtifactError on first access, where their number is not `count`.
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
        if len(self._text) > (ends[-1] + 1 if len(ends) else 0):  # no line feed after the last line
            ends = np.append(ends, len(self._text))
        if self._count is not None and len(ends) != self._count:
            reason = f"{len(ends)} document ids for {self._count} vectors"
            raise ArtifactError(f"{self._path}: {reason}: copy the index again, or build it again")
        return ends

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


class _Unfinished(Exception):
    """Discards files that are not complete."""


class RowsWriter:
    """Writes the `count` rows of an index folder in order; done: the number of rows written.

    Leaving a `with` block without `close` leaves no incomplete file.
    """

    def __init__(self, folder: Path, count: int, mark: str) -> None:
        """Begin a folder whose file `mark` is written last. Raises ArtifactError where that exists."""
        if (folder / mark).exists():
            raise ArtifactError(f"{folder / mark}: already complete: delete the folder to write it again")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.count, self.done, self._files = folder, count, 0, ExitStack()

    @property
    def documents(self) -> int:
        """The number of ids: one per row, unless a document has several."""
        return self.count

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Stream the id of each row, in row order.

        Raises:
            DataError: an id has white space.
            ArtifactError: the number of ids is wrong.
        """
        written = 0
        with store.replacing(self.folder / DOC_IDS) as file:
            for doc_id in doc_ids:
                if not one_word(doc_id):
                    raise DataError(f"document id {doc_id!r} in row {written}: ids must not contain white space")
                file.write(f"{doc_id}\n".encode())
                written += 1
            if written != self.documents:
                raise ArtifactError(f"{self.folder}: {written} document ids for {self.documents} rows")

    def _take(self, rows: int) -> None:
        """Count the rows of the next part. Raises UsageError where there are too many."""
        if self.done + rows > self.count:
            raise UsageError(f"{self.folder}: {self.done + rows} rows of {self.count}")
        self.done += rows

    def _complete(self) -> None:
        """Rename the files to their final names. Raises ArtifactError where rows or ids are missing."""
        if self.done < self.count:
            raise ArtifactError(f"{self.folder}: the rows from {self.done} on are missing: write them first")
        if not (self.folder / DOC_IDS).exists():
            raise ArtifactError(f"{self.folder}: the document ids are missing: call write_doc_ids first")
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(_Unfinished):
            self._files.__exit__(_Unfinished, _Unfinished(), None)
            self._files = ExitStack()


def index_bytes(folder: Path, without: str = "") -> int:
    """The size of an index, excluding the document ids, which are the same for every kind, and the folder `without`."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in (DOC_IDS, store.MANIFEST))
    return sum(path.stat().st_size for path in files if path.relative_to(folder).parts[0] != without)


class FlatWriter(RowsWriter):
    """Writes a dense index folder, its rows in order."""

    def __init__(self, folder: Path, dimension: int, count: int) -> None:
        """Begin a folder of `count` vectors with `dimension` numbers each."""
        if dimension < 1 or count < 0:
            raise UsageError(f"{folder}: {count} vectors of dimension {dimension} cannot be written")
        super().__init__(folder, count, "index")
        self.dimension = dimension
        self._file = self._files.enter_context(store.replacing(folder / "index"))
        self._file.write(_HEADER.pack(FLAT, dimension, count, _UNUSED, _UNUSED, 1, 0, dimension * count))

    def write(self, vectors: NDArray[np.float32]) -> None:
        """Write the next rows, float32 [n, dimension]."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise UsageError(f"{self.folder}: vectors of shape {vectors.shape} instead of [n, {self.dimension}]")
        if not np.isfinite(vectors).all():
            raise ArtifactError(f"vectors from row {self.done} on are not finite: check the model")
        self._take(len(vectors))
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").data)

    def close(self) -> None:
        """Complete the folder. Raises ArtifactError where rows or ids are missing."""
        self._complete()


class FlatVectors:
    """A dense index folder, opened for reading: `read` and `gather` keep memory bounded.

    first_row: the number in the folder of the first of its rows.
    """

    first_row = 0

    def __init__(self, folder: Path, dimension: int, count: int) -> None:
        self.folder, self.dimension, self.count = folder, dimension, count
        self.doc_ids: Sequence[str] = DocIds(folder / DOC_IDS)

    @classmethod
    def open(cls, folder: Path) -> "FlatVectors":
        """Open a complete folder that this module or Pyserini wrote.

        Raises ArtifactError where a file is missing, truncated or incomplete, the index is not flat with inner
        products, or its vectors are those of tokens.
        """
        if (folder / TOKEN_OFFSETS).exists():
            raise ArtifactError(f"{folder}: has one vector per token: name a multi-vector index, or another folder")
        opened = cls.of_tokens(folder)
        opened.doc_ids = DocIds(folder / DOC_IDS, opened.count)
        return opened

    @classmethod
    def of_tokens(cls, folder: Path) -> "FlatVectors":
        """Open a complete folder whose rows may be tokens. Raises ArtifactError as `open` does."""
        opened = cls(folder, *_shape(folder / "index"))
        if not (folder / DOC_IDS).exists():
            raise ArtifactError(f"{folder / DOC_IDS}: missing: an index folder needs one document id per line")
        return opened

    def __len__(self) -> int:
        return self.count

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """float32 [N, d], a read-only memory map; its rows are unaligned, so copy them for torch."""
        shape = self.count, self.dimension
        if not self.count:
            return np.empty(shape, np.float32)
        return np.memmap(self.folder / "index", dtype="<f4", mode="r", offset=_HEADER.size, shape=shape)

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """An aligned copy of rows `start` to `stop`: float32 [n, d], in `space` or new; leaves no pages mapped."""
        rows, path = max(0, min(stop, self.count) - start), self.folder / "index"
        block = np.empty((rows, self.dimension), dtype="<f4") if space is None else space[:rows]
        buffer = memoryview(block.data).cast("B") if rows else memoryview(b"")
        with path.open("rb", buffering=0) as file:
            file.seek(_HEADER.size + start * self.dimension * _FLOAT)
            while buffer:
                if not (count := file.readinto(buffer)):
                    raise ArtifactError(f"{path}: truncated while it was being read: build the index again")
                buffer = buffer[count:]
        return block

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """An aligned copy of these rows, int64 [n]: float32 [n, d], through the memory map."""
        return np.require(self.vectors[rows], np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])

    def part(self, rows: range) -> "FlatVectors":
        """A view of some rows; `doc_ids` and `folder` stay those of the whole."""
        return _SomeRows(self, rows)

    def link(self, folder: Path, *names: str) -> None:
        """Make `folder` an index of the same vectors, with other files too, by hard links where possible."""
        for name in ("index", *names, DOC_IDS):
            store.link_file(self.folder / name, folder / name)


class _SomeRows(FlatVectors):
    """Rows of a folder, numbered from 0."""

    def __init__(self, whole: FlatVectors, rows: range) -> None:
        super().__init__(whole.folder, whole.dimension, len(rows))
        self._whole, self._rows = whole, rows
        self.first_row = whole.first_row + rows.start

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        first = self._rows.start
        return self._whole.read(first + start, first + min(stop, len(self._rows)), space)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._whole.gather(rows + self._rows.start)


def _shape(path: Path) -> tuple[int, int]:
    """The dimension and number of the vectors in a file."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
        size = path.stat().st_size
    except OSError as error:
        shards = "; its shards are of an earlier version: encode the corpus again"
        hint = shards if (path.parent / "shards.json").exists() else ""
        raise ArtifactError(f"{path}: cannot be read ({error.strerror}){hint}") from error
    if len(header) < _HEADER.size or header[:4] != FLAT:
        raise ArtifactError(f"{path}: not a flat inner-product faiss index: build a flat one")
    _, dimension, count, _, _, _, metric, floats = _HEADER.unpack(header)
    if metric != 0 or dimension < 1 or count < 0 or floats != dimension * count:
        raise ArtifactError(f"{path}: its header is damaged: build the index again")
    expected = _HEADER.size + floats * _FLOAT
    if size != expected:
        raise ArtifactError(f"{path}: {size} bytes instead of {expected}: build the index again")
    return dimension, count
