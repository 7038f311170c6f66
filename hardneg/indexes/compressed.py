"""Faiss indexes: training, writing, searching, and the backends `sq8`, `fp16` and `hnsw`.

An index is trained on a sample, filled block by block, and saved. Searches break ties by ascending row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import checks
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Encoded, Hits, MissingDependency, UsageError
from hardneg.runtime import SEED, Progress, generator
from hardneg.store import link_file, replacing

_BLOCK_BYTES = 32 << 20
SAMPLE = 65_536
"""Default maximum number of vectors to train an index on."""
_QUERIES, _QUERIES_OF_GPUS = 256, 4096  # at a time: on a CPU faiss holds a table of M * C products for each
_LEVEL_BYTES = 12  # per vector of a graph: its level, and where its links begin


def load_faiss() -> Any:
    """Return the module faiss. Raises MissingDependency if faiss is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency('this index type needs faiss: pip install "hardneg[cpu]"') from error
    return faiss


@dataclass(frozen=True)
class Training:
    """Settings for training an index of type `name` on at most `sample` vectors.

    least: minimum number of vectors. what: the part of the index that needs this many vectors, for messages.
    """

    name: str
    sample: int
    seed: int
    least: int = 1
    what: str = "its value ranges"

    def settle(self, index: Any) -> None:
        """Seed the clusterings of an index, and let each clustering use the whole sample, however small."""
        for owner in (index, getattr(index, "pq", None)):
            if (clustering := getattr(owner, "cp", None)) is not None:
                clustering.seed = self.seed % (1 << 31)
                clustering.min_points_per_centroid = 1
                clustering.max_points_per_centroid = self.sample

    def train(self, index: Any, vectors: FlatVectors, progress: Progress) -> None:
        """Train an index on a sample of `vectors`, on one thread, since the result depends on the number of threads.

        Raises:
            UsageError: there are too few vectors.
            ArtifactError: a vector of the sample is not finite.
        """
        if len(vectors) < self.least:
            raise UsageError(
                f"{self.name}: {vectors.folder} has {len(vectors)} vectors, but {self.what} need at least "
                f"{self.least}; choose fewer, or use sq8, fp16 or flat"
            )
        self.settle(innermost(index))
        rows = sample_rows(len(vectors), self.sample, self.seed)
        block = np.empty((len(rows), vectors.dimension), np.float32)
        for position, row in enumerate(rows):  # a memory map would also read the surroundings of each row
            vectors.read(int(row), int(row) + 1, block[position : position + 1])
        checks.check_finite(block, rows)
        with progress.task("train", len(rows), "passages") as task, threads(1):
            index.train(block)
            task.advance(len(rows))


def sample_rows(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """Draw n = min(`size`, `count`) of `count` rows: int64 [n], ascending, a random one from each of n equal ranges."""
    size = min(size, count)
    edges = np.arange(size + 1, dtype=np.int64) * count // max(size, 1)
    return generator(seed, "index sample").integers(edges[:-1], edges[1:])


def check_parts(name: str, dimension: int, subvectors: int) -> None:
    """Check that `subvectors` divides `dimension`. Raises UsageError, which lists the valid numbers of subvectors."""
    if dimension % subvectors:
        fitting = ", ".join(str(m) for m in range(1, dimension + 1) if dimension % m == 0)
        raise UsageError(
            f"{name}: dimension {dimension} cannot be split into {subvectors} subvectors; possible: {fitting}"
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let faiss compute on `count` threads inside the block; the previous number is restored afterwards."""
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
    """Yield `encode(block)` for each block, float32 [n, d], of the vectors."""
    with progress.task("compress", len(vectors), "passages") as task:
        for _, block in checks.vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
            yield encode(block)
            task.advance(len(block))


def make_room(index: Any, rows: int) -> None:
    """Allocate memory for `rows` vectors in an index of flat codes, since gradual growth would double peak memory."""
    if isinstance(index, load_faiss().IndexFlatCodes):
        index.codes.resize(rows * index.code_size)


def write_folder(index: Any, codes: Iterable[NDArray[np.uint8]], rows: int, source: Path, path: Path) -> int:
    """Fill a trained, empty index with blocks of codes, uint8 [n, bytes per vector]; `save` it and return `rows`."""
    inner = innermost(index)
    make_room(inner, rows)
    for block in codes:
        inner.add_sa_codes(np.ascontiguousarray(block))
    index.ntotal = inner.ntotal
    return save(index, rows, source, path)


def save(index: Any, rows: int, source: Path, path: Path) -> int:
    """Write a faiss index of `rows` vectors to folder `path`, with the docid file from `source`; return `rows`.

    Raises:
        ArtifactError: the installed faiss cannot read the written file, or reads a different number of vectors.
    """
    faiss = load_faiss()
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / "index") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    if (written := _read_index(path / "index", getattr(faiss, "IO_FLAG_MMAP_IFC", 0)).ntotal) != rows:
        raise ArtifactError(f"{path}: faiss reads back {written} of {rows} vectors; install another version of faiss")
    link_file(source / "docid", path / "docid")
    return rows


def innermost(index: Any) -> Any:
    """Return the index that stores the vectors: the one behind a vector transform, or `index` itself."""
    faiss = load_faiss()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def _read_index(path: Path, flags: int = 0) -> Any:
    try:
        return load_faiss().read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:
        raise ArtifactError(f"{path}: cannot be read as a faiss index; rebuild it") from error


@dataclass(frozen=True)
class CompressedSearcher:
    """An open index folder. index: inner-product `faiss.Index`. copy: GPU index to search instead, or None."""

    path: Path
    index: Any
    copy: Any = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the index in folder `path`.

        Raises:
            MissingDependency: faiss is not installed.
            ArtifactError: a file is missing, damaged, or of another index type.
        """
        index = _read_index(path / "index")
        if index.metric_type != load_faiss().METRIC_INNER_PRODUCT:
            raise ArtifactError(f"{path / 'index'}: scores are not inner products; rebuild it for inner products")
        if not (path / "docid").exists():
            raise ArtifactError(f"{path / 'docid'}: missing; an index folder needs it, with one document id per line")
        return cls(path, index)

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the k best vectors for queries float32 [Q, d], padded to k. Ties are broken by row, even at rank k.

        Raises:
            UsageError: the queries are texts, contain non-finite numbers or have another dimension, or k is below 1.
        """
        wanted = checks.check_vectors("compressed", queries)
        checks.check_queries(wanted, self.index.d, k)
        wanted = np.ascontiguousarray(wanted, np.float32)
        hits = checks.no_hits(len(wanted), k)
        step = _QUERIES if self.copy is None else _QUERIES_OF_GPUS
        for start in range(0, len(wanted), step):
            best = self._best(wanted[start : start + step], k)
            rows, columns = slice(start, start + step), slice(best.rows.shape[1])
            hits.rows[rows, columns], hits.scores[rows, columns] = best.rows, best.scores
        return hits

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decode the vectors in `rows`, int64 [n], and undo any rotation: float32 [n, d].

        Raises:
            UsageError: a row is not in the index.
        """
        checks.check_rows(rows, self.index.ntotal)
        inner = innermost(self.index)
        if isinstance(inner, load_faiss().IndexIVF) and inner.direct_map.no():
            inner.make_direct_map()  # maps rows to lists from now on
        decoded: NDArray[np.float32] = self.index.reconstruct_batch(np.ascontiguousarray(rows, np.int64))
        return decoded

    def _best(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return at most k hits per query.

        Faiss may end a list with any of several tied hits. So one more hit is requested, and then twice as many each
        time for queries whose last score still equals the k-th.
        """
        total, left, best = self.index.ntotal, np.arange(len(queries)), checks.no_hits(len(queries), k)
        depth = max(1, min(k + 1, total))
        while len(left):
            scores, rows = (self.copy or self.index).search(queries[left], depth)
            scores[rows < 0] = -np.inf
            found = checks.in_order(rows, scores)
            best.rows[left, :depth], best.scores[left, :depth] = found.rows[:, :k], found.scores[:, :k]
            tied = (found.scores[:, min(k, depth) - 1] == found.scores[:, -1]) & (found.rows[:, -1] >= 0)
            left, depth = left[tied & (k < depth < total)], min(2 * depth, total)
        return best


class FaissBackend:
    """Base class of the backends that write a faiss index. name: name of the index type in messages."""

    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if (training := self._training()) is not None and training.sample < training.least:
            problem = f"sample is {training.sample}, but {training.what} need at least {training.least} vectors"
            raise UsageError(f"{self.name}: {problem}; increase sample")

    def _training(self) -> Training | None:
        return None

    def _empty(self, dimension: int) -> Any:
        """Return a faiss index without vectors."""
        raise NotImplementedError

    def _bytes(self, dimension: int) -> tuple[float, int]:
        """Return the bytes per vector, and the bytes of everything else."""
        raise NotImplementedError

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the estimated size in bytes of an index of `vectors` vectors; `documents` is not used."""
        each, others = self._bytes(dimension)
        return round(each * vectors) + others

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compress the vectors in the dense index folder `source` into `path`; return the number of vectors.

        Memory holds all codes, and one block of vectors at a time.

        Raises:
            MissingDependency: faiss is not installed.
            UsageError: there are too few vectors, or the dimension is not supported.
            ArtifactError: a vector is not finite, or the installed faiss cannot read the written index.
        """
        vectors, training = FlatVectors.open(source), self._training()
        index = self._empty(vectors.dimension)
        if training is not None:
            training.train(index, vectors, progress)
        codes = encode_blocks(vectors, index.sa_encode, progress)
        return write_folder(index, codes, len(vectors), source, path)

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """Open the index in folder `path`. Hits are already vector rows, so the id lookup `rows` is not used."""
        return CompressedSearcher.open(path)


class _Scalar(FaissBackend):
    """Base of the backends that quantise each number separately."""

    codec: ClassVar[str]
    width: ClassVar[int]

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        codec = getattr(faiss.ScalarQuantizer, self.codec)
        return faiss.IndexScalarQuantizer(dimension, codec, faiss.METRIC_INNER_PRODUCT)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return self.width * dimension, 0


@dataclass(frozen=True)
class Sq8(_Scalar):
    """Eight bits per number: d bytes per vector, a quarter of the size of `flat`.

    Args:
        sample: maximum number of vectors used to estimate the range of each dimension.
        seed: random seed for the sample.
    """

    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    name, codec, width = "sq8", "QT_8bit", 1

    def _training(self) -> Training:
        return Training(self.name, self.sample, self.seed)


@dataclass(frozen=True)
class Fp16(_Scalar):
    """Half precision: 2d bytes per vector, half the size of `flat`, with the same results except for near ties."""

    version: ClassVar[int] = 1
    name, codec, width = "fp16", "QT_fp16", 2


@dataclass(frozen=True)
class Hnsw(FaissBackend):
    """A hierarchical graph over full vectors: fastest to search on a CPU, but slow to build, and held in memory.

    Args:
        m: links per vector on the upper levels, at least 2; the lowest level has twice as many.
        ef_construction: number of candidate neighbors considered when linking a new vector.
        ef_search: number of candidate neighbors in a search, at least the requested depth; stored in the index.
        threads: number of build threads. With 1 thread, builds on the same machine are identical; with more, the links
            depend on thread timing, but recall stays the same.
        seed: random seed for the levels.
    """

    m: int = 32
    ef_construction: int = 200
    ef_search: int = 128
    threads: int = 1
    seed: int = SEED

    version: ClassVar[int] = 1
    name: ClassVar[str] = "hnsw"

    def __post_init__(self) -> None:
        least = {"m": 2, "ef_construction": 1, "ef_search": 1, "threads": 1}
        wrong = [f"{name} is {getattr(self, name)}" for name, low in least.items() if getattr(self, name) < low]
        if wrong:
            raise UsageError(f"hnsw: {', '.join(wrong)}; m must be at least 2, the others at least 1")

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return 4 * dimension + 8 * self.m + 4 * self.m // (self.m - 1) + _LEVEL_BYTES, 0

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Build a graph in `path` from the vectors in the dense index folder `source`; return the number of vectors.

        Raises:
            MissingDependency: faiss is not installed.
        """
        vectors, faiss = FlatVectors.open(source), load_faiss()
        index = faiss.IndexHNSWFlat(vectors.dimension, self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        index.hnsw.rng = faiss.RandomGenerator(self.seed)
        make_room(faiss.downcast_index(index.storage), len(vectors))
        with threads(self.threads):
            for _ in encode_blocks(vectors, index.add, progress):
                pass
        return save(index, len(vectors), source, path)
