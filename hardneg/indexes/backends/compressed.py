"""Indexes of faiss: vectors in eight bits or half precision, in inverted lists, or linked in a graph.

An index is trained on a sample, filled block by block, and saved; it is searched with ties in row order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.kernels import checks
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Encoded, Hits, MissingDependency, UsageError
from hardneg.runtime import SEED, Progress, generator
from hardneg.store import link_file, replacing

_BLOCK_BYTES = 32 << 20
SUBVECTORS, BITS, SAMPLE = 48, 8, 65_536
"""Of codes, by default: parts of a vector, bits of each, and how many vectors are trained on at most."""
_QUERIES, _QUERIES_OF_GPUS = 256, 4096  # at a time: on a CPU faiss keeps a table of M * C products for each
_NUMBER, _LEVEL_BYTES = 8, 12  # of a vector: its row's number in its list; its level, and where its links begin


def load_faiss() -> Any:
    """Return the module faiss. Raises MissingDependency where it is not installed."""
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

    def settle(self, index: Any) -> None:
        """Seed the clusterings of an index, and let them use the whole sample, even a small one."""
        for owner in (index, getattr(index, "pq", None)):
            if (clustering := getattr(owner, "cp", None)) is not None:
                clustering.seed = self.seed % (1 << 31)
                clustering.min_points_per_centroid = 1
                clustering.max_points_per_centroid = self.sample

    def train(self, index: Any, vectors: FlatVectors, progress: Progress) -> None:
        """Train an index, on one thread: the sums of several would depend on how many there are.

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
        checks.check_finite(block, rows)
        with progress.task("train", len(rows), "passages") as task, threads(1):
            index.train(block)
            task.advance(len(rows))


def sample_rows(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return at most `size` of `count` rows, ascending: one drawn from each of as many equal stretches."""
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
        for _, block in checks.vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
            yield encode(block)
            task.advance(len(block))


def make_room(index: Any, rows: int) -> None:
    """Allocate the memory for the codes of `rows` vectors at once: growing it would hold it twice for a moment."""
    if isinstance(index, load_faiss().IndexFlatCodes):
        index.codes.resize(rows * index.code_size)


def write_folder(index: Any, codes: Iterable[NDArray[np.uint8]], rows: int, source: Path, path: Path) -> int:
    """Write a trained, empty index with `codes`, uint8 [n, bytes a vector] of its `sa_encode`, as `save` does."""
    inner = innermost(index)
    make_room(inner, rows)
    for block in codes:
        inner.add_sa_codes(np.ascontiguousarray(block))
    index.ntotal = inner.ntotal
    return save(index, rows, source, path)


def save(index: Any, rows: int, source: Path, path: Path) -> int:
    """Write a faiss index of `rows` vectors in folder `path`, beside it the docid file of folder `source`; return rows.

    Raises:
        ArtifactError: the installed faiss does not read what was written.
    """
    faiss = load_faiss()
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / "index") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    if (written := _read_index(path / "index", getattr(faiss, "IO_FLAG_MMAP_IFC", 0)).ntotal) != rows:
        raise ArtifactError(f"{path}: faiss reads {written} of {rows} vectors: install another faiss")
    link_file(source / "docid", path / "docid")
    return rows


def innermost(index: Any) -> Any:
    """Return the index that holds the codes, without a transform of the vectors."""
    faiss = load_faiss()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def _read_index(path: Path, flags: int = 0) -> Any:
    try:
        return load_faiss().read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:
        raise ArtifactError(f"{path}: not a faiss index that can be read: build it again") from error


@dataclass(frozen=True)
class CompressedSearcher:
    """An opened index folder; `index` is the `faiss.Index` of inner product, `copy` a search in its place on a GPU."""

    path: Path
    index: Any
    copy: Any = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the index in folder `path`.

        Raises:
            MissingDependency: without faiss.
            ArtifactError: a file is missing, damaged, or of another kind.
        """
        index = _read_index(path / "index")
        if index.metric_type != load_faiss().METRIC_INNER_PRODUCT:
            raise ArtifactError(f"{path / 'index'}: its scores are no inner products: build another")
        if not (path / "docid").exists():
            raise ArtifactError(f"{path / 'docid'}: missing: an index folder needs one document id a line")
        return cls(path, index)

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the k vectors that score best with queries float32 [Q, d]; ties by ascending row, at rank k too.

        Raises:
            UsageError: for texts, vectors of another dimension or not finite, or k below 1.
        """
        wanted = checks.check_vectors("compressed", queries)
        checks.check_queries(wanted, self.index.d, k)
        wanted = np.ascontiguousarray(wanted, np.float32)
        hits = checks.no_hits(len(wanted), k)
        step = _QUERIES if self.copy is None else _QUERIES_OF_GPUS
        for start in range(0, len(wanted), step):
            rows, scores = self._best(wanted[start : start + step], k)
            hits.rows[start : start + len(rows), : rows.shape[1]] = rows
            hits.scores[start : start + len(rows), : rows.shape[1]] = scores
        return hits

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows int64 [n]: float32 [n, d], decoded and rotated back.

        Raises:
            UsageError: for rows that are not in the index.
        """
        checks.check_rows(rows, self.index.ntotal)
        inner = innermost(self.index)
        if isinstance(inner, load_faiss().IndexIVF) and inner.direct_map.no():
            inner.make_direct_map()  # where each row is among the lists, kept from now on
        decoded: NDArray[np.float32] = self.index.reconstruct_batch(np.ascontiguousarray(rows, np.int64))
        return decoded

    def _best(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return int64 and float32 [q, k], narrower where there are fewer vectors.

        faiss leaves open which of several equal scores stay at the end of a list, so one more is searched, and twice
        as many again where even the last of these equals the k-th.
        """
        depth = max(1, min(k + 1, self.index.ntotal))
        rows, scores = self._sorted(queries, depth)
        rows, scores, open_ = rows[:, :k].copy(), scores[:, :k].copy(), _tied(rows, scores, k)
        while len(open_) and depth < self.index.ntotal:
            depth = min(2 * depth, self.index.ntotal)
            more_rows, more_scores = self._sorted(queries[open_], depth)
            rows[open_], scores[open_] = more_rows[:, :k], more_scores[:, :k]
            open_ = open_[_tied(more_rows, more_scores, k)]
        return rows, scores

    def _sorted(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        scores, rows = (self.copy or self.index).search(queries, depth)
        scores[rows < 0] = -np.inf
        hits = checks.in_order(rows, scores)
        return hits.rows, hits.scores


def _tied(rows: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the queries whose known list ends with the score of rank k, so that ties may be missing."""
    if rows.shape[1] <= k:
        return np.empty(0, np.int64)
    return np.flatnonzero((scores[:, k - 1] == scores[:, -1]) & (rows[:, -1] >= 0))


class FaissBackend:
    """Shared by the backends whose file is an index of faiss; name: in messages."""

    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if (training := self._training()) is not None and training.sample < training.least:
            problem = f"sample is {training.sample}: {training.what} take {training.least} vectors or more"
            raise UsageError(f"{self.name}: {problem}")

    def _training(self) -> Training | None:
        return None

    def _empty(self, dimension: int) -> Any:
        """Return an index of faiss without vectors, to be trained if there is a training."""
        raise NotImplementedError

    def _bytes(self, dimension: int) -> tuple[float, int]:
        """Return the bytes of a vector, and those of everything else."""
        raise NotImplementedError

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the bytes of the index."""
        each, others = self._bytes(dimension)
        return round(each * vectors) + others

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compress the vectors of the dense index folder `source`, block by block; return their number.

        Memory: the codes, as in every search of the index; of the vectors, a block.

        Raises:
            MissingDependency: without faiss.
            UsageError: there are too few vectors, or their dimension does not fit.
            ArtifactError: a vector is not finite, or the installed faiss cannot read the written index.
        """
        vectors, training = FlatVectors.open(source), self._training()
        index = self._empty(vectors.dimension)
        if training is not None:
            training.train(index, vectors, progress)
        codes = encode_blocks(vectors, index.sa_encode, progress)
        return write_folder(index, codes, len(vectors), source, path)

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """Open the index in folder `path`; a hit's row is the vector's, and `rows` is unused."""
        return CompressedSearcher.open(path)


@dataclass(frozen=True)
class Sq8(FaissBackend):
    """Eight bits per number: d bytes per vector, a quarter of the flat index.

    Args:
        sample: how many vectors at most the range of each dimension is taken from.
        seed: of the sample.
    """

    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    name: ClassVar[str] = "sq8"

    def _training(self) -> Training:
        return Training(self.name, self.sample, self.seed)

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return dimension, 0


@dataclass(frozen=True)
class Fp16(FaissBackend):
    """Half precision: 2d bytes per vector, half of the flat index, with the same results but for near ties."""

    version: ClassVar[int] = 1
    name: ClassVar[str] = "fp16"

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return 2 * dimension, 0


class ListedBackend(FaissBackend):
    """Shared by inverted lists, `nprobe` of which a query probes, and by codes, without lists; bits: 0 without codes.

    Codes are the numbers of `subvectors` centroids, one for each part of a vector.
    """

    lists: int = 0
    nprobe: int = 0
    subvectors: int = 1
    bits: int = 0
    sample: int
    seed: int

    def __post_init__(self) -> None:
        if self.lists and not 1 <= self.nprobe <= self.lists:
            problem = f"lists is {self.lists} and nprobe is {self.nprobe}: 1 ≤ nprobe ≤ lists must hold"
            raise UsageError(f"{self.name}: {problem}")
        if self.subvectors < 1 or not min(1, type(self).bits) <= self.bits <= 8:
            raise UsageError(
                f"{self.name}: subvectors is {self.subvectors} and bits is {self.bits}: "
                "subvectors must be at least 1, and bits from 1 to 8"
            )
        super().__post_init__()

    def _training(self) -> Training:
        centroids = 1 << self.bits
        what = f"{self.lists} lists" if self.lists >= centroids else f"{centroids} centroids ({self.bits} bits)"
        return Training(self.name, self.sample, self.seed, max(centroids, self.lists), what)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        code, centroids = (self.subvectors * self.bits / 8, 1 << self.bits) if self.bits else (4 * dimension, 0)
        return code + _NUMBER * bool(self.lists), 4 * dimension * (centroids + self.lists)


@dataclass(frozen=True)
class IvfFlat(ListedBackend):
    """Full vectors in `lists` inverted lists, `nprobe` of which a query probes.

    Args:
        lists: how many there are; the square root of the number of vectors, or some times that, is usual.
        nprobe: how many lists a query looks into; it is stored in the index.
        sample: how many vectors at most the centres are trained on.
        seed: of the sample and of the clustering.
    """

    lists: int = 256
    nprobe: int = 16
    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    name: ClassVar[str] = "ivf-flat"

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, self.lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = self.nprobe
        return index


@dataclass(frozen=True)
class IvfPq(ListedBackend):
    """Product quantisation of the residuals in `lists` inverted lists, `nprobe` of which a query probes.

    Args:
        subvectors: how many parts a vector is cut into; must divide its dimension.
        bits: of a part's code, from 1 to 8: it names one of 2^bits centroids.
        lists: how many there are; the square root of the number of vectors, or some times that, is usual.
        nprobe: how many lists a query looks into; it is stored in the index.
        sample: how many vectors at most the centres and the centroids are trained on.
        seed: of the sample and of the clustering.
    """

    subvectors: int = SUBVECTORS
    bits: int = BITS
    lists: int = IvfFlat.lists
    nprobe: int = IvfFlat.nprobe
    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    name: ClassVar[str] = "ivfpq"

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        check_parts(self.name, dimension, self.subvectors)
        parts = (self.lists, self.subvectors, self.bits)
        index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, *parts, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = self.nprobe
        return index


@dataclass(frozen=True)
class Hnsw(FaissBackend):
    """A hierarchical graph over full vectors: the fastest search on a CPU, in memory and slow to build.

    Args:
        m: links of a vector on the upper levels; twice as many on the lowest one. From 2.
        ef_construction: how many near vectors are held while the links of a new one are looked for.
        ef_search: how many near vectors a search holds, at least the requested depth; it is stored in the index.
        threads: of the build. With 1 the same vectors, options and machine give the same bytes; with more the links
            depend on which thread is first, and recall stays as it is.
        seed: of the levels.
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
            raise UsageError(f"hnsw: {', '.join(wrong)}: m must be at least 2, the others at least 1")

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return 4 * dimension + 8 * self.m + 4 * self.m // (self.m - 1) + _LEVEL_BYTES, 0

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Link the vectors of the dense index folder `source`, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
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
