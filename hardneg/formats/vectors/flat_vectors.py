"""Dense vectors on disk as the folder that Pyserini's `FaissSearcher` opens.

`index` is a flat inner-product index of faiss: 45 bytes of header and raw float32 rows, read by memory map, without
faiss. `docid` has the id of each row.
"""

import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.doc_ids import DocIds
from hardneg.formats.vectors.number_file import NumberFile
from hardneg.formats.vectors.rows_writer import RowsWriter
from hardneg.formats.vectors.shards import Pieces, Shard, Shards
from hardneg.records import DOC_IDS, ArtifactError, UsageError
from hardneg.store import replacing

# magic, dimension, rows, two unused fields, is_trained, metric (0: inner product), number of floats
_HEADER = struct.Struct("<4siqqqBiQ")
FLAT = b"IxFI"
"""What a flat inner-product index begins with."""

TOKEN_OFFSETS = "offsets.npy"
"""Beside vectors of tokens (the package hardneg-multi-vector): where those of each document begin."""

_UNUSED = 1 << 20
_FLOAT = 4


class FlatWriter(RowsWriter):
    """Writes a dense index folder, its rows in order."""

    def __init__(self, folder: Path, dimension: int, count: int) -> None:
        """Begins a folder of `count` vectors with `dimension` numbers each."""
        if dimension < 1 or count < 0:
            raise UsageError(f"{folder}: {count} vectors of dimension {dimension} cannot be written")
        super().__init__(folder, count, "index")
        self.dimension = dimension
        self._file = self._files.enter_context(replacing(folder / "index"))
        self._file.write(_HEADER.pack(FLAT, dimension, count, _UNUSED, _UNUSED, 1, 0, dimension * count))

    def write(self, vectors: NDArray[np.float32]) -> None:
        """Writes the rows that come next, float32 [n, dimension]."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise UsageError(f"{self.folder}: vectors of shape {vectors.shape} instead of [n, {self.dimension}]")
        if not np.isfinite(vectors).all():
            raise ArtifactError(f"vectors from row {self.done} on are not finite: check the model")
        self._take(len(vectors))
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").data)

    def close(self) -> None:
        """Checks that every row and the ids are there: the folder is complete."""
        self._complete()


class FlatVectors:
    """A dense index folder, opened for reading: `read` and `gather` keep memory bounded, whatever its shards.

    first_row: the number in the folder of the first of its rows.
    """

    first_row = 0

    def __init__(self, folder: Path, dimension: int, shards: Shards, pieces: Pieces) -> None:
        self.folder, self.dimension, self.count = folder, dimension, len(pieces)
        self.doc_ids: Sequence[str] = DocIds(folder / DOC_IDS)
        self.shards, self._pieces = shards, pieces
        self._checked: set[int] = set()

    @classmethod
    def open(cls, folder: Path) -> "FlatVectors":
        """Opens a complete folder, of this module or of Pyserini, or one of shards.

        Raises:
            ArtifactError: where a file is missing, cut short, unfinished, or not a flat inner-product index, or the
                vectors are those of tokens.
        """
        if (folder / TOKEN_OFFSETS).exists():
            raise ArtifactError(f"{folder}: has a vector for each token: name a multi-vector index, or another folder")
        opened = cls.of_tokens(folder)
        opened.doc_ids = DocIds(folder / DOC_IDS, opened.count)
        return opened

    @classmethod
    def of_tokens(cls, folder: Path) -> "FlatVectors":
        """Opens a complete folder as `open` does, whatever a row stands for.

        Raises:
            ArtifactError: where a file is missing, cut short, unfinished, or not a flat inner-product index.
        """
        shards = Shards.of(folder)
        if shards is None:
            dimension, count = _shape(folder / "index")
            opened = cls(folder, dimension, Shards(folder, [Shard("", count)]), Pieces(np.array([0, count])))
        else:
            first, offsets = shards.first, folder / TOKEN_OFFSETS
            first = np.asarray(NumberFile(offsets, "<i8").mapped[first]) if offsets.exists() else first
            opened = cls(folder, shards.dimension, shards, Pieces(first))
        if not (folder / DOC_IDS).exists():
            raise ArtifactError(f"{folder / DOC_IDS}: missing: an index folder needs one document id a line")
        return opened

    def __len__(self) -> int:
        return self.count

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """float32 [N, d], a read-only memory map; its rows are not aligned, so copy what torch is to see.

        Raises:
            ArtifactError: the folder is in shards, which cannot be one map: `read` and `gather`.
        """
        if len(self.shards.listed) > 1:
            raise ArtifactError(f"{self.folder}: is in shards, which are no one map: encode the corpus again")
        return self._mapped(0)

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """An aligned copy of rows `start` to `stop`: float32 [n, d], in `space` or new; leaves no pages mapped."""
        rows = max(0, min(stop, self.count) - start)
        block = np.empty((rows, self.dimension), dtype="<f4") if space is None else space[:rows]
        done = 0
        for number, begin, end in self._pieces.spans(start, start + rows):
            _read(self._file(number), begin, block[done : done + end - begin])
            done += end - begin
        return block

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """An aligned copy of these rows, int64 [n]: float32 [n, d], through memory maps."""
        if len(self.shards.listed) == 1:
            return np.require(self.vectors[rows], np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
        gathered = np.empty((len(rows), self.dimension), np.float32)
        for number, mine, local in self._pieces.owned(rows):
            gathered[mine] = self._mapped(number)[local]
        return gathered

    def part(self, rows: range) -> "FlatVectors":
        """Some of the rows as if they were all; `doc_ids` and `folder` stay those of the whole."""
        return _SomeRows(self, rows)

    def link(self, folder: Path, *names: str) -> None:
        """Makes `folder` an index of the same vectors, with other files too; all are shared where the disk can."""
        self.shards.link(folder, ("index", *names, DOC_IDS))

    def _mapped(self, number: int) -> NDArray[np.float32]:
        shape = int(np.diff(self._pieces.first)[number]), self.dimension
        if not shape[0]:
            return np.empty(shape, np.float32)
        return np.memmap(self._file(number), dtype="<f4", mode="r", offset=_HEADER.size, shape=shape)

    def _file(self, number: int) -> Path:
        """The file of a shard's vectors, checked against the list."""
        path = self.shards.of_shard(number) / "index"
        if number not in self._checked and len(self.shards.listed) > 1:
            wanted = self.dimension, int(np.diff(self._pieces.first)[number])
            if (shape := _shape(path)) != wanted:
                reason = f"{shape[1]} vectors of dimension {shape[0]} instead of {wanted[1]} of {wanted[0]}"
                raise ArtifactError(f"{path}: {reason}: encode the corpus again")
            self._checked.add(number)
        return path


class _SomeRows(FlatVectors):
    """Rows of a folder, numbered from 0."""

    def __init__(self, whole: FlatVectors, rows: range) -> None:
        super().__init__(whole.folder, whole.dimension, whole.shards, Pieces(np.array([0, len(rows)])))
        self._whole, self._rows = whole, rows
        self.first_row = whole.first_row + rows.start

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """As the whole does."""
        first = self._rows.start
        return self._whole.read(first + start, first + min(stop, len(self._rows)), space)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """As the whole does."""
        return self._whole.gather(rows + self._rows.start)


def _read(path: Path, start: int, block: NDArray[np.float32]) -> None:
    """Fills float32 [n, d] with the rows of a file from `start` on."""
    buffer = memoryview(block.data).cast("B") if len(block) else memoryview(b"")
    with path.open("rb", buffering=0) as file:
        file.seek(_HEADER.size + start * block.shape[1] * _FLOAT)
        while buffer:
            if not (got := file.readinto(buffer)):
                raise ArtifactError(f"{path}: cut short while it was read")
            buffer = buffer[got:]


def _shape(path: Path) -> tuple[int, int]:
    """Dimension and number of the vectors in a file."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
        size = path.stat().st_size
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
    if len(header) < _HEADER.size or header[:4] != FLAT:
        raise ArtifactError(f"{path}: not a flat inner-product faiss index: build a flat one")
    _, dimension, count, _, _, _, metric, floats = _HEADER.unpack(header)
    if metric != 0 or dimension < 1 or count < 0 or floats != dimension * count:
        raise ArtifactError(f"{path}: its header is damaged: build the index again")
    expected = _HEADER.size + floats * _FLOAT
    if size != expected:
        raise ArtifactError(f"{path}: {size} bytes instead of {expected}: build the index again")
    return dimension, count
