"""Term weights of a learned sparse encoder, in memory and on disk.

`offsets.npy` (int64 [N + 1]), `terms.npy` (int32) and `weights.npy` (float32) are a CSR matrix with a row per text.
`docid` has the id of each row, `sparse.json` the numbers of rows and terms, and the optional `terms.txt` the word of
each term. Products use scipy's sparse matrices, which sum the terms of a pair in the same order on every machine.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hardneg.plugin import arrays, errors, index_files, records, stores

SHAPE = "sparse.json"
"""The file that identifies a folder of term weights."""

DOC_IDS, TERMS = "docid", "terms.txt"
_OFFSETS, _TERMS, _WEIGHTS = ("offsets.npy", "<i8"), ("terms.npy", "<i4"), ("weights.npy", "<f4")

FILES = (SHAPE, TERMS, DOC_IDS, *(name for name, _ in (_OFFSETS, _TERMS, _WEIGHTS)))
"""The files of a complete folder."""


@dataclass(frozen=True, eq=False)
class SparseRows(records.EncodedRows):
    """Term weights of n texts from a learned sparse encoder.

    terms: int32 [offsets[n]], ascending within a text. weights: float32 [offsets[n]], all non-zero. width: size of the
    vocabulary.
    """

    terms: NDArray[np.int32]
    weights: NDArray[np.float32]
    width: int

    @property
    def matrix(self) -> Any:
        """The weights as a `scipy.sparse.csr_array` [n, width] that shares the arrays."""
        return csr_array((self.weights, self.terms, self.offsets), shape=(len(self), self.width))

    def score_matrix(self, documents: Self) -> NDArray[np.float32]:
        """Compute inner products of all queries and documents, float32 [Q, D]. Raises UsageError like `check`."""
        self.check(documents.width)
        products: NDArray[np.float32] = (self.matrix @ documents.matrix.T.tocsr()).toarray()
        return products

    def score_pairs(self, documents: Self) -> NDArray[np.float32]:
        """Compute inner products of query i and document i for all i, float32 [n]. Raises UsageError like `check`."""
        self.check(documents.width)
        products: NDArray[np.float32] = (self.matrix * documents.matrix).sum(1, dtype=np.float32)
        return products

    def check(self, width: int) -> None:
        """Raise UsageError if these queries do not have `width` terms, or have invalid weights."""
        if self.width != width:
            raise errors.UsageError(f"queries have {self.width} terms instead of {width}; use the index's model")
        if problem := fault(self):
            raise errors.UsageError(f"queries: {problem}; check the model")


def fault(rows: SparseRows) -> str:
    """Return what is wrong with term weights, and in which text if known; an empty string if they are valid."""
    if len(rows.offsets) < 1 or rows.offsets[0] != 0 or (np.diff(rows.offsets) < 0).any():
        return "offsets do not ascend from 0"
    if not rows.offsets[-1] == len(rows.terms) == len(rows.weights):
        return f"{len(rows.terms)} terms and {len(rows.weights)} weights, but offsets end at {rows.offsets[-1]}"
    outside = (rows.terms < 0) | (rows.terms >= rows.width)
    unordered = np.append(False, rows.terms[1:] <= rows.terms[:-1])[: len(rows.terms)]
    unordered[rows.offsets[:-1][np.diff(rows.offsets) > 0]] = False
    useless = ~np.isfinite(rows.weights) | (rows.weights == 0)
    faults = {f"a term is outside 0 to {rows.width - 1}": outside, "terms do not ascend": unordered}
    for what, wrong in {**faults, "a weight is 0 or not finite": useless}.items():
        if wrong.any():
            text = int(np.searchsorted(rows.offsets, int(wrong.argmax()), "right")) - 1
            return f"text {text} (from 0): {what}"
    return ""


def write_terms(folder: Path, terms: Sequence[str]) -> None:
    """Write the word of each term, one per line. Raises DataError if one is empty or has a line break."""
    if odd := [term for term in terms if not term or "\n" in term]:
        raise errors.DataError(f"{folder}: the term {odd[0]!r} is empty or has a line break; rename it")
    stores.replace_text(folder / TERMS, "".join(f"{term}\n" for term in terms))


def read_terms(folder: Path) -> Sequence[str]:
    """Read the word of each term, in order. Raises ArtifactError if the file is missing or damaged."""
    try:
        return (folder / TERMS).read_bytes().decode().removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ArtifactError(f"{folder / TERMS}: cannot be read ({error}); rebuild the index") from error


class SparseWriter(index_files.RowsWriter):
    """Writes a folder of term weights; `write` appends texts, and `close` completes the folder."""

    def __init__(self, folder: Path, width: int, count: int) -> None:
        """Start a folder of `count` texts over `width` terms. Raises UsageError for numbers out of range."""
        if not 1 <= width < 1 << 31 or count < 0:
            raise errors.UsageError(f"{folder}: weights of {count} texts over {width} terms cannot be written")
        super().__init__(folder, count, SHAPE)
        self.width, self._size = width, 0
        kinds = (_OFFSETS, _TERMS, _WEIGHTS)
        self._lines = {kind: self._files.enter_context(stores.replacing(folder / kind[0])) for kind in kinds}
        for (_, dtype), file in self._lines.items():
            arrays.write_header(file, dtype, 0)
        self._lines[_OFFSETS].write(np.zeros(1, _OFFSETS[1]).data)

    def write(self, rows: SparseRows) -> None:
        """Append texts. Raises UsageError for too many or a different width, ArtifactError for invalid weights."""
        if rows.width != self.width:
            raise errors.UsageError(f"{self.folder}: {rows.width} terms instead of {self.width}")
        if problem := fault(rows):
            raise errors.ArtifactError(f"weights from row {self.done} on, {problem}; check the model")
        self._take(len(rows))
        for (kind, file), numbers in zip(
            self._lines.items(), (self._size + rows.offsets[1:], rows.terms, rows.weights), strict=True
        ):
            file.write(np.ascontiguousarray(numbers, kind[1]).data)
        self._size += len(rows.terms)

    def write_terms(self, terms: Sequence[str]) -> None:
        """Write the words of the terms. Raises UsageError unless they are `width` distinct words; see `write_terms`."""
        if len(terms) != self.width or len(set(terms)) != self.width:
            raise errors.UsageError(f"{self.folder}: {len(set(terms))} different terms instead of {self.width}")
        write_terms(self.folder, terms)

    def close(self) -> None:
        """Finish the folder. Raises ArtifactError if rows or ids are missing."""
        for (_, dtype), file in self._lines.items():
            if not file.closed:
                file.seek(0)
                arrays.write_header(file, dtype, self.count + 1 if dtype == _OFFSETS[1] else self._size)
        self._complete()
        stores.replace_text(self.folder / SHAPE, json.dumps({"rows": self.count, "terms": self.width}))


class SparseStore:
    """A folder of term weights opened for reading; only `offsets` and `gather` use memory maps."""

    def __init__(self, folder: Path, width: int, count: int) -> None:
        self.folder, self.width, self.count = folder, width, count
        self.doc_ids: Sequence[str] = index_files.DocIds(folder / DOC_IDS)
        self._offsets = arrays.NumberFile(folder / _OFFSETS[0], _OFFSETS[1])
        self.shards = index_files.Shards.of(folder) or index_files.Shards(folder, [index_files.Shard("", count)])

    @classmethod
    def open(cls, folder: Path) -> "SparseStore":
        """Open a complete folder. Raises ArtifactError if a file is missing, truncated, or from another folder."""
        try:
            said = json.loads((folder / SHAPE).read_text())
            count, width = int(said["rows"]), int(said["terms"])
        except OSError as error:
            raise errors.ArtifactError(f"{folder}: no term weights ({error.strerror}: {SHAPE})") from error
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise errors.ArtifactError(f"{folder / SHAPE}: damaged; re-encode the corpus") from error
        store = cls(folder, width, count)
        if len(store.offsets) != count + 1 or not all(store._is_sound(each) for each in (_TERMS, _WEIGHTS)):
            raise errors.ArtifactError(f"{folder}: its files do not belong together; re-encode the corpus")
        if not (folder / DOC_IDS).exists():
            raise errors.ArtifactError(f"{folder / DOC_IDS}: missing; an index folder needs one document id per line")
        return store

    def __len__(self) -> int:
        return self.count

    @cached_property
    def _pieces(self) -> index_files.Pieces:
        """The shards, divided by the positions of their weights."""
        return index_files.Pieces(np.append(0, self.offsets[self.shards.first[1:]]))

    def _file(self, name_and_dtype: tuple[str, str], number: int) -> arrays.NumberFile:
        return arrays.NumberFile(self.shards.of_shard(number) / name_and_dtype[0], name_and_dtype[1])

    def _is_sound(self, numbers: tuple[str, str]) -> bool:
        """Return whether each shard's file has as many numbers as its rows require."""
        return all(len(self._file(numbers, shard)) == count for shard, count in enumerate(np.diff(self._pieces.first)))

    def _read(self, numbers: tuple[str, str], start: int, stop: int) -> NDArray[Any]:
        """Return a copy of the numbers from `start` to `stop`, without memory-mapping."""
        spans = self._pieces.spans(start, stop)
        parts = [self._file(numbers, shard).read(begin, end) for shard, begin, end in spans]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, numbers[1]), *parts])

    def _take(self, numbers: tuple[str, str], positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return a copy of the numbers at the given positions, through memory maps."""
        taken = np.empty(len(positions), numbers[1])
        for shard, mine, there in self._pieces.owned(positions):
            taken[mine] = self._file(numbers, shard).mapped[there]
        return taken

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The start of each row in the terms and weights, then their number; int64 [N + 1], memory-mapped read-only."""
        return self._offsets.mapped

    @cached_property
    def terms(self) -> Sequence[str] | None:
        """The word of each term; None if unknown. Raises ArtifactError unless there are `width` distinct words."""
        if not (self.folder / TERMS).exists():
            return None
        terms = read_terms(self.folder)
        if len(set(terms)) != self.width:
            raise errors.ArtifactError(
                f"{self.folder / TERMS}: {len(set(terms))} different terms instead of {self.width}"
            )
        return terms

    def read(self, start: int, stop: int) -> SparseRows:
        """Return a copy of rows [start:stop], without memory-mapping. Raises ArtifactError if they are damaged."""
        start, stop, _ = slice(start, stop).indices(self.count)
        offsets = self._offsets.read(start, max(start, stop) + 1)
        where, first, last = f"from row {start} on", int(offsets[0]), int(offsets[-1])
        self._check(offsets[:-1], offsets[1:], where)
        terms, weights = (self._read(numbers, first, last) for numbers in (_TERMS, _WEIGHTS))
        return self._sound(SparseRows(offsets - first, terms, weights, self.width), where)

    def blocks(self, rows: int, weights: int, start: int = 0) -> Iterator[tuple[int, SparseRows]]:
        """Yield (first row, block) from `start` on, each with up to `rows` rows and `weights` weights, or one row."""
        while start < self.count:
            offsets = self._offsets.read(start, min(start + rows, self.count) + 1)
            held = int(np.searchsorted(offsets - offsets[0], weights, "right")) - 1
            stop = start + max(1, held)
            yield start, self.read(start, stop)
            start = stop

    def link(self, folder: Path) -> None:
        """Link the files to another folder, or copy them if links are not possible."""
        self.shards.link(folder, FILES)

    def gather(self, rows: NDArray[np.int64]) -> SparseRows:
        """Return a copy of the given rows, int64 [n], through memory maps. Raises ArtifactError if they are damaged."""
        where = "among the requested rows"
        begins, ends = self.offsets[rows], self.offsets[rows + 1]
        self._check(begins, ends, where)
        offsets = np.append(0, np.cumsum(ends - begins))
        positions = np.repeat(begins - offsets[:-1], ends - begins) + np.arange(offsets[-1])
        terms, weights = (self._take(numbers, positions) for numbers in (_TERMS, _WEIGHTS))
        return self._sound(SparseRows(offsets, terms, weights, self.width), where)

    def _check(self, begins: NDArray[np.int64], ends: NDArray[np.int64], where: str) -> None:
        if ((begins < 0) | (begins > ends) | (ends > self.offsets[-1])).any():
            raise errors.ArtifactError(f"{self.folder}: {where}, offsets do not ascend; re-encode the corpus")

    def _sound(self, rows: SparseRows, where: str) -> SparseRows:
        if problem := fault(rows):
            raise errors.ArtifactError(f"{self.folder}: {where}, {problem}; re-encode the corpus")
        return rows
