"""Indexes of faiss: vectors in eight bits or half precision, in inverted lists, or linked in a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_queries, check_rows, check_vectors, in_order, no_hits
from hardneg.indexes.kernels.faiss import compression
from hardneg.indexes.kernels.faiss.compression import BITS, SAMPLE, SUBVECTORS, Training, innermost, load_faiss
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Encoded, Hits, UsageError
from hardneg.runtime import SEED, Progress

_QUERIES = 256  # on a CPU, at a time: faiss keeps a table of M * C products for each
_QUERIES_OF_GPUS = 4096
_NUMBER = 8  # bytes of a row's number in its list


@dataclass(frozen=True)
class CompressedSearcher:
    """An opened index folder; `index` is the `faiss.Index` of inner product, `copy` a search in its place on a GPU."""

    path: Path
    index: Any
    copy: Any = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The index in folder `path`.

        Raises:
            MissingDependency: without faiss.
            ArtifactError: a file is missing, damaged, or of another kind.
        """
        index = compression.read_index(path / "index")
        if index.metric_type != load_faiss().METRIC_INNER_PRODUCT:
            raise ArtifactError(f"{path / 'index'}: its scores are no inner products: build another")
        if not (path / "docid").exists():
            raise ArtifactError(f"{path / 'docid'}: missing: an index folder needs one document id a line")
        return cls(path, index)

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k vectors that score best with queries float32 [Q, d]; ties by ascending row, at rank k too.

        Raises:
            UsageError: for texts, vectors of another dimension or not finite, or k below 1.
        """
        wanted = check_vectors("compressed", queries)
        check_queries(wanted, self.index.d, k)
        wanted = np.ascontiguousarray(wanted, np.float32)
        hits = no_hits(len(wanted), k)
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
        check_rows(rows, self.index.ntotal)
        faiss, inner = load_faiss(), innermost(self.index)
        if isinstance(inner, faiss.IndexIVF) and inner.direct_map.no():
            inner.make_direct_map()  # where each row is among the lists, kept from now on
        decoded: NDArray[np.float32] = self.index.reconstruct_batch(np.ascontiguousarray(rows, np.int64))
        return decoded

    def _best(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """int64 and float32 [q, k], narrower where there are fewer vectors.

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
        hits = in_order(rows, scores)
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
        if (training := self._training()) is not None:
            training.check()

    def _training(self) -> Training | None:
        return None

    def _empty(self, dimension: int) -> Any:
        """An index of faiss without vectors, to be trained if there is a training."""
        raise NotImplementedError

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compress the vectors of the dense index folder `source`, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
            UsageError: there are too few vectors, or their dimension does not fit.
            ArtifactError: a vector is not finite, or the installed faiss cannot read the written index.
        """
        vectors, training = FlatVectors.open(source), self._training()
        index = self._empty(vectors.dimension)
        if training is not None:
            training.train(index, vectors, progress)
        codes = compression.encode_blocks(vectors, index.sa_encode, progress)
        return compression.write_folder(index, codes, len(vectors), source, path)

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

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The codes."""
        return vectors * dimension


@dataclass(frozen=True)
class Fp16(FaissBackend):
    """Half precision: 2d bytes per vector, half of the flat index, with the same results but for near ties."""

    version: ClassVar[int] = 1
    name: ClassVar[str] = "fp16"

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The codes."""
        return vectors * dimension * 2


@dataclass(frozen=True)
class IvfFlat(FaissBackend):
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

    def __post_init__(self) -> None:
        _check_lists(self)
        super().__post_init__()

    def _training(self) -> Training:
        return Training(self.name, self.sample, self.seed, self.lists, f"{self.lists} lists")

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, self.lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = self.nprobe
        return index

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The vectors and the centres of lists."""
        return vectors * (4 * dimension + _NUMBER) + 4 * dimension * self.lists


def _check_lists(backend: "IvfFlat | IvfPq") -> None:
    if not 1 <= backend.nprobe <= backend.lists:
        problem = f"lists is {backend.lists} and nprobe is {backend.nprobe}: 1 ≤ nprobe ≤ lists must hold"
        raise UsageError(f"{backend.name}: {problem}")


class ProductBackend(FaissBackend):
    """Shared by product quantisation: a vector as M codes, each the number of a centroid of its part."""

    subvectors: int
    bits: int
    sample: int
    seed: int
    lists: int = 0

    def __post_init__(self) -> None:
        if self.subvectors < 1 or not 1 <= self.bits <= 8:
            raise UsageError(
                f"{self.name}: subvectors is {self.subvectors} and bits is {self.bits}: "
                "subvectors must be at least 1, and bits from 1 to 8"
            )
        super().__post_init__()

    def _training(self) -> Training:
        centroids = 1 << self.bits
        what = f"{self.lists} lists" if self.lists >= centroids else f"{centroids} centroids ({self.bits} bits)"
        return Training(self.name, self.sample, self.seed, max(centroids, self.lists), what)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The codes, in lists with their rows' numbers, the centroids and the centres of lists."""
        codes = round((self.subvectors * self.bits / 8 + _NUMBER * bool(self.lists)) * vectors)
        return codes + 4 * dimension * ((1 << self.bits) + self.lists)


@dataclass(frozen=True)
class IvfPq(ProductBackend):
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

    def __post_init__(self) -> None:
        _check_lists(self)
        super().__post_init__()

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        compression.check_parts(self.name, dimension, self.subvectors)
        parts = (self.lists, self.subvectors, self.bits)
        index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, *parts, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = self.nprobe
        return index


_LEVEL_BYTES = 12  # a vector: its level, and where its links begin


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

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Vectors and links."""
        return vectors * (4 * dimension + 8 * self.m + 4 * self.m // (self.m - 1) + _LEVEL_BYTES)

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Link the vectors of the dense index folder `source`, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
        """
        vectors, faiss = FlatVectors.open(source), load_faiss()
        index = faiss.IndexHNSWFlat(vectors.dimension, self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        index.hnsw.rng = faiss.RandomGenerator(self.seed)
        compression.make_room(faiss.downcast_index(index.storage), len(vectors))
        with compression.threads(self.threads):
            for _ in compression.encode_blocks(vectors, index.add, progress):
                pass
        return compression.save(index, len(vectors), source, path)
