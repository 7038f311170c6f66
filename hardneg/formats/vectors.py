"""Index folders, written row by row: dense vectors that Pyserini's `FaissSearcher` can open, and the id of each row.

`index` is a flat inner-product index of faiss: 45 bytes of header and raw float32 rows, read by memory map, without
faiss. `docid` has the id of each row. Earlier versions may have split the rows into folders, listed in `shards.json`.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray

from hardneg.formats import arrays
from hardneg.formats.text_lines import one_word
from hardneg.records import DOC_IDS, SHARDS, ArtifactError, DataError, UsageError
from hardneg.store import MANIFEST, link_file, replacing


class DocIds(Sequence[str]):
    """The document ids in a `docid` file, read from a memory map on access.

    Raises ArtifactError on first access if the number of lines is not `count`, unless `count` is None.
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
        if len(self._text) > (ends[-1] + 1 if len(ends) else 0):  # the last line has no end
            ends = np.append(ends, len(self._text))
        if self._count is not None and len(ends) != self._count:
            reason = f"{len(ends)} document ids for {self._count} vectors"
            raise ArtifactError(f"{self._path}: {reason}; copy the index again, or rebuild it")
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
    """Raised internally to close files without keeping them."""


class RowsWriter:
    """Writes the `count` rows of an index folder in order; done: the number of rows written so far.

    If a `with` block ends without a call to `close`, no partially written file remains.
    """

    def __init__(self, folder: Path, count: int, mark: str) -> None:
        """Start a folder in which file `mark` is written last. Raises ArtifactError if that file already exists."""
        if (folder / mark).exists():
            raise ArtifactError(f"{folder / mark}: already complete; delete the folder to rewrite it")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.count, self.done, self._files = folder, count, 0, ExitStack()

    @property
    def documents(self) -> int:
        """The number of ids to write: one per row, unless a subclass writes several rows per document."""
        return self.count

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Stream the id of each row to the file `docid`, in row order.

        Raises DataError if an id is empty or has white space, and ArtifactError if there are not `documents` ids.
        """
        written = 0
        with replacing(self.folder / DOC_IDS) as file:
            for doc_id in doc_ids:
                if not one_word(doc_id):
                    raise DataError(f"document id {doc_id!r} in row {written} is empty or has white space")
                file.write(f"{doc_id}\n".encode())
                written += 1
            if written != self.documents:
                raise ArtifactError(f"{self.folder}: {written} document ids for {self.documents} rows")

    def _take(self, rows: int) -> None:
        """Add rows to the count of rows written. Raises UsageError if there are too many."""
        if self.done + rows > self.count:
            raise UsageError(f"{self.folder}: expected {self.count} rows, got {self.done + rows}")
        self.done += rows

    def _complete(self) -> None:
        """Move the finished files into place. Raises ArtifactError if rows or ids are missing."""
        if self.done < self.count:
            raise ArtifactError(f"{self.folder}: the rows from {self.done} on are missing; write them first")
        if not (self.folder / DOC_IDS).exists():
            raise ArtifactError(f"{self.folder}: the document ids are missing; call write_doc_ids first")
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(_Unfinished):
            self._files.__exit__(_Unfinished, _Unfinished(), None)
            self._files = ExitStack()


class Shard(NamedTuple):
    """A shard of an index. location: its folder, empty if the index is not split. rows: its documents or segments."""

    location: str
    rows: int


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of an index folder, in row order. dimension: dimension of the vectors, 0 if there are no vectors."""

    folder: Path
    listed: Sequence[Shard]
    dimension: int = 0

    @classmethod
    def of(cls, folder: Path) -> "Shards | None":
        """The shards listed in a folder written by an earlier version; None if the folder is not split.

        Raises ArtifactError if the list is damaged or was written by a newer hardneg.
        """
        path = folder / SHARDS
        if not path.exists():
            return None
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            version, dimension = int(said["version"]), int(said.get("dimension", 0))
            listed = [Shard(item["place"], item["rows"]) for item in (said["shards"] if version == 1 else ())]
        except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
            raise ArtifactError(f"{path}: damaged ({error!r}); re-encode the corpus") from error
        if not listed:
            raise ArtifactError(f"{path}: unsupported version {version} with {len(listed)} shards; upgrade hardneg")
        return cls(folder, listed, dimension)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """The first row of each shard, followed by the total number of rows: int64 [S + 1]."""
        return np.cumsum([0, *(shard.rows for shard in self.listed)], dtype=np.int64)

    def link(self, folder: Path, names: Sequence[str]) -> None:
        """Link or copy into another folder: the files `names` that exist, the shards and, last, the list of shards."""
        own = [self.of_shard(number) for number, shard in enumerate(self.listed) if shard.location]
        shards = [str(path.relative_to(self.folder)) for shard in own for path in sorted(shard.iterdir())]
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*names, *shards, SHARDS):
            if (self.folder / name).exists():
                link_file(self.folder / name, folder / name)

    def of_shard(self, number: int) -> Path:
        """The folder of the shard with this number.

        Raises ArtifactError if its location is not the name of a subfolder, such as a URL from an earlier version.
        """
        folder = self.folder / (location := self.listed[number].location)
        if location and (folder.parent != self.folder or folder.name != location):
            problem = f"{location!r} is not the name of a folder; re-encode the corpus"
            raise ArtifactError(f"{self.folder / SHARDS}: {problem}")
        return folder


class Pieces:
    """A sequence split over several shards. first: int64 [S + 1], the start of each shard, then the total length."""

    def __init__(self, first: NDArray[np.int64]) -> None:
        self.first = first

    def __len__(self) -> int:
        return int(self.first[-1])

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """For each shard that overlaps [start, stop), yield its number, and the start and stop within the shard."""
        number = int(np.searchsorted(self.first, start, "right")) - 1
        while start < stop:
            begin, end = int(self.first[number]), min(stop, int(self.first[number + 1]))
            if end > start:
                yield number, start - begin, end - begin
            start, number = end, number + 1

    def owned(self, positions: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Group positions, int64 [n], by shard: yield a shard, indices into `positions`, and positions in the shard."""
        owner = np.searchsorted(self.first, positions, "right") - 1
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            yield int(number), mine, positions[mine] - self.first[number]


def index_bytes(folder: Path, without: str = "") -> int:
    """The size of an index in bytes, excluding files common to all kinds of index: ids, manifest, list of shards.

    without: a subfolder to exclude.
    """
    aside = {DOC_IDS, MANIFEST, SHARDS, "shard.json"}
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in aside)
    return sum(path.stat().st_size for path in files if path.relative_to(folder).parts[0] != without)


# magic, dimension, rows, two unused fields, is_trained, metric (0: inner product), number of floats
_HEADER = struct.Struct("<4siqqqBiQ")
FLAT = b"IxFI"
"""The first bytes of a flat inner-product index."""

TOKEN_OFFSETS = "offsets.npy"
"""The file next to token vectors (package hardneg-multi-vector) with the first row of each document."""

_UNUSED = 1 << 20
_FLOAT = 4


class FlatWriter(RowsWriter):
    """Writes a dense index folder: `write` appends vectors in row order, and `close` completes the folder."""

    def __init__(self, folder: Path, dimension: int, count: int) -> None:
        """Start a folder for `count` vectors of `dimension` numbers each."""
        if dimension < 1 or count < 0:
            raise UsageError(f"{folder}: {count} vectors of dimension {dimension} cannot be written")
        super().__init__(folder, count, "index")
        self.dimension = dimension
        self._file = self._files.enter_context(replacing(folder / "index"))
        self._file.write(_HEADER.pack(FLAT, dimension, count, _UNUSED, _UNUSED, 1, 0, dimension * count))

    def write(self, vectors: NDArray[np.float32]) -> None:
        """Append vectors, float32 [n, dimension].

        Raises ArtifactError if a number is not finite, and UsageError for another shape or for too many vectors.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise UsageError(f"{self.folder}: expected vectors of shape [n, {self.dimension}], found {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise ArtifactError(f"vectors from row {self.done} on are not finite; check the model")
        self._take(len(vectors))
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").data)

    def close(self) -> None:
        """Move the files into place. Raises ArtifactError if rows or ids are missing."""
        self._complete()


class FlatVectors:
    """A dense index folder, with or without shards, opened for reading. `read` and `gather` use bounded memory.

    first_row: the row of the folder at which this index starts; 0 unless this is a `part`.
    """

    first_row = 0

    def __init__(self, folder: Path, dimension: int, shards: Shards, pieces: Pieces) -> None:
        self.folder, self.dimension, self.count = folder, dimension, len(pieces)
        self.doc_ids: Sequence[str] = DocIds(folder / DOC_IDS)
        self.shards, self._pieces = shards, pieces
        self._checked: set[int] = set()

    @classmethod
    def open(cls, folder: Path) -> "FlatVectors":
        """Open a complete folder written by this module or by Pyserini, or a folder of shards.

        Raises ArtifactError if a file is missing, truncated, unfinished, or not a flat inner-product index, or if the
        folder contains token vectors.
        """
        if (folder / TOKEN_OFFSETS).exists():
            raise ArtifactError(f"{folder}: has one vector per token; use a multi-vector index, or another folder")
        opened = cls.of_tokens(folder)
        opened.doc_ids = DocIds(folder / DOC_IDS, opened.count)
        return opened

    @classmethod
    def of_tokens(cls, folder: Path) -> "FlatVectors":
        """Open a folder as `open` does, but also accept token vectors. Raises ArtifactError for other problems."""
        shards = Shards.of(folder)
        if shards is None:
            dimension, count = _shape(folder / "index")
            opened = cls(folder, dimension, Shards(folder, [Shard("", count)]), Pieces(np.array([0, count])))
        else:
            first, offsets = shards.first, folder / TOKEN_OFFSETS
            first = np.asarray(arrays.NumberFile(offsets, "<i8").mapped[first]) if offsets.exists() else first
            opened = cls(folder, shards.dimension, shards, Pieces(first))
        if not (folder / DOC_IDS).exists():
            raise ArtifactError(f"{folder / DOC_IDS}: no such file; it must have one document id per line")
        return opened

    def __len__(self) -> int:
        return self.count

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """All vectors: float32 [N, d], a read-only memory map. Its rows are not aligned, so copy them for torch.

        Raises ArtifactError for a folder of shards, which cannot be mapped as one array; use `read` and `gather`.
        """
        if len(self.shards.listed) > 1:
            raise ArtifactError(f"{self.folder}: shards cannot be mapped as one array; re-encode the corpus")
        return self._mapped(0)

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Read (not map) rows `start` to `stop - 1` into the first rows of `space` or a new array: float32 [n, d]."""
        rows = max(0, min(stop, self.count) - start)
        block = np.empty((rows, self.dimension), dtype="<f4") if space is None else space[:rows]
        buffer = memoryview(block.data).cast("B") if rows else memoryview(b"")
        for number, begin, end in self._pieces.spans(start, start + rows):
            path, size = self._file(number), self.dimension * _FLOAT
            part, buffer = buffer[: (end - begin) * size], buffer[(end - begin) * size :]
            with path.open("rb", buffering=0) as file:
                file.seek(_HEADER.size + begin * size)
                while part:
                    if not (got := file.readinto(part)):
                        raise ArtifactError(f"{path}: truncated while it was being read; rebuild it")
                    part = part[got:]
        return block

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return an aligned copy of the vectors in `rows`, int64 [n], read through memory maps: float32 [n, d]."""
        if len(self.shards.listed) == 1:
            return np.require(self.vectors[rows], np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
        gathered = np.empty((len(rows), self.dimension), np.float32)
        for number, mine, local in self._pieces.owned(rows):
            gathered[mine] = self._mapped(number)[local]
        return gathered

    def part(self, rows: range) -> "FlatVectors":
        """Return a view of the given rows, renumbered from 0; `doc_ids` and `folder` are those of the whole index."""
        return _SomeRows(self, rows)

    def link(self, folder: Path, *names: str) -> None:
        """Link or copy the vectors, the document ids and the files `names` into another folder."""
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
                reason = f"expected {wanted[1]} vectors of dimension {wanted[0]}, found {shape[1]} of {shape[0]}"
                raise ArtifactError(f"{path}: {reason}; re-encode the corpus")
            self._checked.add(number)
        return path


class _SomeRows(FlatVectors):
    """Rows of a folder, numbered from 0."""

    def __init__(self, whole: FlatVectors, rows: range) -> None:
        super().__init__(whole.folder, whole.dimension, whole.shards, Pieces(np.array([0, len(rows)])))
        self._whole, self._rows = whole, rows
        self.first_row = whole.first_row + rows.start

    def read(self, start: int, stop: int, space: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Read from the whole index, counting rows from the first one of this part."""
        first = self._rows.start
        return self._whole.read(first + start, first + min(stop, len(self._rows)), space)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Gather from the whole index, counting rows from the first one of this part."""
        return self._whole.gather(rows + self._rows.start)


def _shape(path: Path) -> tuple[int, int]:
    """The dimension and the number of vectors in a file."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
        size = path.stat().st_size
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
    if len(header) < _HEADER.size or header[:4] != FLAT:
        raise ArtifactError(f"{path}: not a flat inner-product faiss index; build a flat one")
    _, dimension, count, _, _, _, metric, floats = _HEADER.unpack(header)
    if metric != 0 or dimension < 1 or count < 0 or floats != dimension * count:
        raise ArtifactError(f"{path}: the header is damaged; rebuild the index")
    expected = _HEADER.size + floats * _FLOAT
    if size != expected:
        raise ArtifactError(f"{path}: expected {expected} bytes, found {size}; rebuild the index")
    return dimension, count
