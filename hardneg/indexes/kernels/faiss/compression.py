"""Indexes of faiss: trained on a sample, filled block by block, saved and read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite, vector_blocks
from hardneg.records import ArtifactError, MissingDependency, UsageError
from hardneg.runtime import Progress, generator
from hardneg.store import link_file, replacing

_BLOCK_BYTES = 32 << 20
SUBVECTORS, BITS, SAMPLE = 48, 8, 65_536
"""Of codes, by default: parts of a vector, bits of each, and how many vectors are trained on at most."""


def load_faiss() -> Any:
    """The module faiss. Raises MissingDependency where it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency('this kind of index needs faiss: pip install "hardneg[cpu]"') from error
    return faiss


@dataclass(frozen=True)
class Training:
    """The training of a kind of index, `name`, on at most `sample` vectors.

    least: how many it takes. what: in messages, the part that needs so many.
    """

    name: str
    sample: int
    seed: int
    least: int = 1
    what: str = "the ranges of its numbers"

    def check(self) -> None:
        """Refuse a sample that is too small for any vectors, as UsageError."""
        if self.sample < self.least:
            raise UsageError(f"{self.name}: sample is {self.sample}: {self.what} take {self.least} vectors or more")

    def settle(self, index: Any) -> None:
        """Seed the clusterings of an index, and let them use the whole sample, even a small one."""
        for owner in (index, getattr(index, "pq", None)):
            if (clustering := getattr(owner, "cp", None)) is not None:
                clustering.seed = self.seed % (1 << 31)
                clustering.min_points_per_centroid = 1
                clustering.max_points_per_centroid = self.sample

    def train(self, index: Any, vectors: FlatVectors, progress: Progress) -> None:
        """Trains an index, on one thread: the sums of several would depend on how many there are.

        Raises:
            UsageError: there are too few vectors.
            ArtifactError: a vector that was drawn is not finite.
        """
        if len(vectors) < self.least:
            raise UsageError(
                f"{self.name}: {vectors.folder} holds {len(vectors)} vectors, but {self.what} take "
                f"{self.least} or more: ask for fewer, or take sq8, fp16 or flat"
            )
        self.settle(innermost(index))
        rows = sample_rows(len(vectors), self.sample, self.seed)
        block = np.empty((len(rows), vectors.dimension), np.float32)
        for position, row in enumerate(rows):  # not by the memory map, which would keep what lies around each row
            vectors.read(int(row), int(row) + 1, block[position : position + 1])
        check_finite(block, rows)
        with progress.task("train", len(rows), "passages") as task, threads(1):
            index.train(block)
            task.advance(len(rows))


def sample_rows(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """At most `size` of `count` rows, ascending: one drawn from each of as many equal stretches."""
    size = min(size, count)
    edges = np.arange(size + 1, dtype=np.int64) * count // max(size, 1)
    return generator(seed, "index sample").integers(edges[:-1], edges[1:])


def check_parts(name: str, dimension: int, subvectors: int) -> None:
    """Refuse vectors that cannot be cut into so many equal parts, as UsageError that lists the numbers that fit."""
    if dimension % subvectors:
        fitting = ", ".join(str(m) for m in range(1, dimension + 1) if dimension % m == 0)
        raise UsageError(
            f"{name}: vectors of dimension {dimension} cannot be cut into {subvectors} subvectors; these fit: {fitting}"
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let faiss compute on `count` threads."""
    faiss = load_faiss()
    had = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(had)


def encode_blocks(
    vectors: FlatVectors, encode: Callable[[NDArray[np.float32]], Any], progress: Progress
) -> Iterator[Any]:
    """Encode each block of the vectors, float32 [n, d]."""
    with progress.task("compress", len(vectors), "passages") as task:
        for _, block in vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
            yield encode(block)
            task.advance(len(block))


def write_folder(index: Any, codes: Iterable[NDArray[np.uint8]], rows: int, source: Path, path: Path) -> int:
    """Writes the index folder `path`: a trained, empty faiss index with `codes`, and the docid file of `source`.

    Memory: the codes, as in every search of the index; of the vectors, a block.

    Args:
        index: it holds the codes afterwards.
        codes: uint8 [n, bytes a vector], from the index's own `sa_encode`, in row order.
        rows: how many there are in all; they are returned.
        source: a dense index folder.
        path: the folder to write.

    Raises:
        ArtifactError: the installed faiss does not read what was written.
    """
    inner = innermost(index)
    make_room(inner, rows)
    for block in codes:
        inner.add_sa_codes(np.ascontiguousarray(block))
    index.ntotal = inner.ntotal
    return save(index, rows, source, path)


def make_room(index: Any, rows: int) -> None:
    """Allocate the memory for the codes of `rows` vectors at once: growing it would hold it twice for a moment."""
    if isinstance(index, load_faiss().IndexFlatCodes):
        index.codes.resize(rows * index.code_size)


def save(index: Any, rows: int, source: Path, path: Path) -> int:
    """Writes a faiss index of `rows` vectors in folder `path`, and beside it the docid file of `source`; returns rows.

    Raises:
        ArtifactError: the installed faiss does not read what was written.
    """
    faiss = load_faiss()
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / "index") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    if (written := read_index(path / "index", mapped=True).ntotal) != rows:
        raise ArtifactError(f"{path}: faiss reads {written} of {rows} vectors: install another faiss")
    link_file(source / "docid", path / "docid")
    return rows


def innermost(index: Any) -> Any:
    """Return the index that holds the codes, without a transform of the vectors."""
    faiss = load_faiss()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def read_index(path: Path, mapped: bool = False) -> Any:
    """A faiss index in memory, or `mapped` where the installed faiss can: a file must be whole for that.

    Raises:
        ArtifactError: the file is missing, damaged, or none of faiss.
    """
    faiss = load_faiss()
    try:
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0)
    except (RuntimeError, MemoryError) as error:
        raise ArtifactError(f"{path}: not a faiss index that can be read: build it again") from error
