"""A vector for each token on disk: what a late-interaction encoder makes of a corpus.

`index` holds the vectors of all tokens, one document after the other, as `FlatWriter` writes vectors.
`offsets.npy`, int64 [N + 1], has the first row of each document; `docid` has the id of each document.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.doc_ids import write_doc_ids
from hardneg.formats.hash_index import ranges
from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors, FlatWriter
from hardneg.formats.vectors.number_file import NumberFile, writing_numbers
from hardneg.records.errors import ArtifactError, UsageError
from hardneg.records.layout import DOC_IDS
from hardneg.records.types import TokenVectors

_DTYPE = "<i8"


class TokenWriter(FlatWriter):
    """Writes a folder of token vectors, its documents in order."""

    def __init__(self, folder: Path, dimension: int, offsets: NDArray[np.int64]) -> None:
        """Begins a folder of vectors with `dimension` numbers each.

        offsets: int64 [N + 1], where the vectors of each document begin, and how many there are.
        """
        if fault := offsets_fault(offsets):
            raise UsageError(f"{folder}: offsets of token vectors {fault}")
        super().__init__(folder, dimension, int(offsets[-1]))
        self.offsets, self._documents = offsets, 0
        with writing_numbers(folder / TOKEN_OFFSETS, _DTYPE, len(offsets)) as write:
            write(offsets)

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Write the id of each document, in row order, streaming."""
        write_doc_ids(self.folder, doc_ids, len(self.offsets) - 1)

    def write(self, documents: TokenVectors) -> None:  # type: ignore[override]
        """Writes the documents that come next.

        Raises:
            UsageError: the documents are too many, or their vectors have another dimension.
            ArtifactError: a document has more or fewer vectors than `offsets`, or one is not finite.
        """
        start, stop = self._documents, self._documents + len(documents)
        if stop > len(self.offsets) - 1:
            raise UsageError(f"{self.folder}: {stop} documents of {len(self.offsets) - 1}")
        said, lengths = np.diff(self.offsets[start : stop + 1]), np.diff(documents.offsets)
        if len(other := np.flatnonzero(said != lengths)):
            row = int(other[0])
            reason = f"document {start + row} has {lengths[row]} token vectors instead of {said[row]}"
            raise ArtifactError(f"{self.folder}: {reason}: texts or tokenizer have changed: delete the folder")
        super().write(documents.vectors)
        self._documents = stop

    def close(self) -> None:
        """Checks that every document and the ids are there: the folder is complete."""
        if self._documents < len(self.offsets) - 1:
            raise ArtifactError(f"{self.folder}: the documents from {self._documents} on are missing")
        super().close()


def offsets_fault(offsets: NDArray[np.int64]) -> str:
    """What is wrong with offsets, int64 [N + 1]; empty where they ascend from 0."""
    if offsets.ndim != 1 or not len(offsets) or offsets.dtype != np.int64:
        return f"are {offsets.dtype} {list(offsets.shape)} instead of int64 [N + 1]"
    return "do not ascend from 0" if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() else ""


class TokenStore:
    """A folder of token vectors, opened for reading: `read` keeps memory bounded, `gather` goes through the map.

    offsets: int64 [N + 1], where the vectors of each document begin, and how many there are.
    """

    def __init__(self, folder: Path, vectors: FlatVectors, offsets: NDArray[np.int64]) -> None:
        self.folder, self.vectors, self.offsets = folder, vectors, offsets
        self.count, self.dimension = len(offsets) - 1, vectors.dimension
        self.doc_ids: Sequence[str] = vectors.doc_ids
        self.shards = vectors.shards

    @classmethod
    def open(cls, folder: Path) -> "TokenStore":
        """Opens a complete folder.

        Raises:
            ArtifactError: a file is missing, cut short, unfinished, or does not belong to the others.
        """
        vectors = FlatVectors.of_tokens(folder)
        path = folder / TOKEN_OFFSETS
        offsets = np.asarray(NumberFile(path, _DTYPE).mapped)
        if fault := offsets_fault(offsets):
            raise ArtifactError(f"{path}: its numbers {fault}: encode the corpus again")
        if offsets[-1] != len(vectors):
            reason = f"{offsets[-1]} vectors, but {folder / 'index'} holds {len(vectors)}"
            raise ArtifactError(f"{path}: is for {reason}: encode the corpus again")
        if len(vectors.doc_ids) != len(offsets) - 1:
            reason = f"{len(vectors.doc_ids)} ids for {len(offsets) - 1} documents"
            raise ArtifactError(f"{folder / DOC_IDS}: {reason}: encode the corpus again")
        return cls(folder, vectors, offsets)

    def __len__(self) -> int:
        return self.count

    def link(self, path: Path) -> None:
        """Makes `path` a folder of the same token vectors; files are shared where the disk can."""
        self.vectors.link(path, TOKEN_OFFSETS)

    def read(self, start: int, stop: int) -> TokenVectors:
        """A copy of documents `start` to `stop`; leaves no pages of vectors mapped."""
        start, stop, _ = slice(start, stop).indices(self.count)
        offsets = self.offsets[start : max(start, stop) + 1]
        return TokenVectors(offsets - offsets[0], self.vectors.read(int(offsets[0]), int(offsets[-1])))

    def gather(self, rows: NDArray[np.int64]) -> TokenVectors:
        """A copy of the documents of these rows, int64 [n], through the memory map."""
        begins, ends = self.offsets[rows], self.offsets[rows + 1]
        positions, _ = ranges(begins, ends)
        return TokenVectors(np.append(0, np.cumsum(ends - begins)), self.vectors.gather(positions))

    def spans(self, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
        """Documents from `start` on, as ranges with about `size` vectors together; a longer one is alone."""
        while start < self.count:
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + size, "right")) - 1
            stop = min(self.count, max(start + 1, stop))
            yield start, stop
            start = stop
