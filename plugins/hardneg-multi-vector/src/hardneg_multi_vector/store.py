"""Token vectors of a late-interaction encoder, in memory and on disk.

In a folder, `index` contains the vectors of all tokens, document by document, in the format of `FlatWriter`.
`offsets.npy`, int64 [N + 1], has each document's first row, then the total; `docid` has the id of each document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import arrays, errors, index_files, records

OFFSETS, DOC_IDS = "offsets.npy", "docid"
NumberFile = arrays.NumberFile


@dataclass(frozen=True, eq=False)
class TokenVectors(records.EncodedRows):
    """Token vectors of n texts from a late-interaction encoder; vectors: float32 [offsets[n], d]."""

    vectors: NDArray[np.float32]

    def score_matrix(self, documents: Self) -> NDArray[np.float32]:
        """Compute MaxSim of each query with each document, float32 [Q, D]. Raises UsageError like `maxsim_matrix`."""
        from hardneg_multi_vector.maxsim import maxsim_matrix

        return maxsim_matrix(self, documents)

    def score_pairs(self, documents: Self) -> NDArray[np.float32]:
        """Compute MaxSim of query i with document i for all i, float32 [n]. Raises UsageError like `maxsim_pairs`."""
        from hardneg_multi_vector.maxsim import maxsim_pairs

        return maxsim_pairs(self, documents)


def ranges(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions in n ranges [begin, end), int64 [T], and each range's offset among them, int64 [n + 1]."""
    offsets = np.concatenate([[0], np.cumsum(ends - begins)]).astype(np.int64)
    return np.repeat(begins - offsets[:-1], ends - begins) + np.arange(offsets[-1]), offsets


def token_positions(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the token positions of documents, int64 [T], and where each document starts among them, int64 [n + 1].

    offsets: int64 [N + 1], the start of each stored document's tokens, then their total number. rows: int64 [n].
    """
    return ranges(offsets[rows], offsets[rows + 1])


def spans(ends: NDArray[np.int64], size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield ranges [first, stop) of items with at most `size` parts in total, or of a single item.

    ends: int64 [n + 1], the start of each item's parts, then the total number of parts. start: the first item.
    """
    while start < len(ends) - 1:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + size, "right")) - 1)
        yield start, stop
        start = stop


class TokenWriter(index_files.FlatWriter):
    """Writes a folder of token vectors; `write` appends documents, and `close` completes the folder."""

    def __init__(self, folder: Path, dimension: int, offsets: NDArray[np.int64]) -> None:
        """Start a folder of vectors with `dimension` dimensions. Raises UsageError if `offsets` are invalid.

        offsets: int64 [N + 1], the start of each document's vectors, then the total number of vectors.
        """
        if fault := offsets_fault(offsets):
            raise errors.UsageError(f"{folder}: offsets of token vectors {fault}")
        super().__init__(folder, dimension, int(offsets[-1]))
        self.offsets, self._documents = offsets, 0
        with arrays.writing_numbers(folder / OFFSETS, "<i8", len(offsets)) as write:
            write(offsets)

    @property
    def documents(self) -> int:
        """The total number of documents to write."""
        return len(self.offsets) - 1

    def write(self, documents: Any) -> None:
        """Append documents. Raises UsageError for too many, ArtifactError for wrong lengths or non-finite vectors."""
        start, stop = self._documents, self._documents + len(documents)
        if stop > self.documents:
            raise errors.UsageError(f"{self.folder}: {stop} documents instead of {self.documents}")
        said, lengths = np.diff(self.offsets[start : stop + 1]), np.diff(documents.offsets)
        if len(other := np.flatnonzero(said != lengths)):
            row = int(other[0])
            reason = f"document {start + row} has {lengths[row]} token vectors instead of {said[row]}"
            raise errors.ArtifactError(f"{self.folder}: {reason}; texts or tokenizer changed, so delete the folder")
        super().write(documents.vectors)
        self._documents = stop

    def close(self) -> None:
        """Finish the folder. Raises ArtifactError if documents or ids are missing."""
        if self._documents < self.documents:
            raise errors.ArtifactError(
                f"{self.folder}: the documents from {self._documents} on are missing; write them first"
            )
        super().close()


def offsets_fault(offsets: NDArray[np.int64]) -> str:
    """Return what is wrong with offsets, or an empty string if they are int64 [N + 1] and ascend from 0."""
    if offsets.ndim != 1 or not len(offsets) or offsets.dtype != np.int64:
        return f"are {offsets.dtype} {list(offsets.shape)} instead of int64 [N + 1]"
    return "do not ascend from 0" if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() else ""


class TokenStore:
    """A folder of token vectors opened for reading; only `gather` memory-maps the vectors.

    offsets: int64 [N + 1], the start of each document's vectors, then the total number of vectors.
    """

    def __init__(self, folder: Path, vectors: index_files.FlatVectors, offsets: NDArray[np.int64]) -> None:
        self.folder, self.vectors, self.offsets = folder, vectors, offsets
        self.count, self.dimension = len(offsets) - 1, vectors.dimension
        self.doc_ids: Sequence[str] = vectors.doc_ids
        self.shards = vectors.shards

    @classmethod
    def open(cls, folder: Path) -> "TokenStore":
        """Open a complete folder. Raises ArtifactError if a file is missing, truncated, or from another folder."""
        vectors, path = index_files.FlatVectors.of_tokens(folder), folder / OFFSETS
        offsets = np.asarray(NumberFile(path, "<i8").mapped)
        if fault := offsets_fault(offsets):
            fault = f"its numbers {fault}"
        elif offsets[-1] != len(vectors):
            fault = f"is for {offsets[-1]} vectors, but {folder / 'index'} has {len(vectors)}"
        elif len(vectors.doc_ids) != len(offsets) - 1:
            fault = f"is for {len(offsets) - 1} documents, but {DOC_IDS} has {len(vectors.doc_ids)} ids"
        if fault:
            raise errors.ArtifactError(f"{path}: {fault}; re-encode the corpus")
        return cls(folder, vectors, offsets)

    def __len__(self) -> int:
        return self.count

    def link(self, path: Path) -> None:
        """Link the files to folder `path`, or copy them if links are not possible."""
        self.vectors.link(path, OFFSETS)

    def read(self, start: int, stop: int) -> TokenVectors:
        """Return a copy of documents `start` to `stop` (exclusive), without memory-mapping the vectors."""
        start, stop, _ = slice(start, stop).indices(self.count)
        offsets = self.offsets[start : max(start, stop) + 1]
        return TokenVectors(offsets - offsets[0], self.vectors.read(int(offsets[0]), int(offsets[-1])))

    def gather(self, rows: NDArray[np.int64]) -> TokenVectors:
        """Return a copy of the documents at the given rows, int64 [n], through the memory map."""
        positions, offsets = token_positions(self.offsets, rows)
        return TokenVectors(offsets, self.vectors.gather(positions))

    def spans(self, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield ranges of documents, from `start` on, with at most `size` vectors in total or a single document."""
        return spans(self.offsets, size, start)
