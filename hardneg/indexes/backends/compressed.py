"""Indexes of faiss: vectors in eight bits or half precision, in inverted lists, or linked in a graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_queries, check_rows, check_vectors, in_order, no_hits
from hardneg.indexes.kernels.faiss.compression import (
    BITS,
    SAMPLE,
    SUBVECTORS,
    Codebook,
    CodeSearcher,
    GpuCopy,
    Training,
    encode_blocks,
    encoder_of,
    gpus,
    innermost,
    load_faiss,
    make_room,
    read_index,
    save,
    searched_on_gpus,
    threads,
    train,
    trained_on_gpus,
    write_folder,
)
from hardneg.records.errors import ArtifactError, UsageError
from hardneg.records.types import Encoded, Hits
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress
from hardneg.runtime.seeding import SEED

if TYPE_CHECKING:
    from hardneg.indexes.kernels.exact.exact import ExactOptions

_QUERIES = 256  # on a CPU, at a time: faiss keeps a table of M * C products for each
_QUERIES_OF_GPUS = 4096


@dataclass(frozen=True)
class CompressedSearcher:
    """An opened index folder; `index` is the `faiss.Index` of inner product, `copy` a search in its place."""

    path: Path
    index: Any
    copy: CodeSearcher | None = None

    @classmethod
    def open(cls, path: Path) -> "CompressedSearcher":
        """The index in folder `path`.

        Raises:
            MissingDependency: without faiss.
            ArtifactError: a file is missing, damaged, or of another kind.
        """
        index = read_index(path / "index")
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

    def using(self, options: "ExactOptions", progress: Progress | None) -> Self:
        """The same, searched on the GPUs that `options.device` names, where faiss has them and such an index.

        Raises:
            UsageError: faiss refuses an index that is to stay there, as one for a training loop is.
        """
        devices = gpus(options.device)
        if not devices or not searched_on_gpus(self.index):
            return replace(self, copy=None)
        stays = options.resident > 0
        copy = GpuCopy.now(self.index, devices, self.path) if stays else GpuCopy(self.index, devices)
        return replace(self, copy=copy)

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


def build(index: Any, vectors: FlatVectors, path: Path, progress: Progress, training: Training | None = None) -> int:
    """Train an empty faiss index if there is a `training`, and write it with all vectors in folder `path`.

    Returns:
        The number of vectors.

    Raises:
        UsageError: there are too few vectors.
        ArtifactError: a vector is not finite, or the installed faiss cannot read the written index.
    """
    if training is not None:
        with trained_on_gpus(index):
            train(index, vectors, training, progress)
    codes = encode_blocks(vectors, encoder_of(index), progress)
    return write_folder(index, codes, len(vectors), vectors.folder, path)


class FaissBackend:
    """Shared by the backends whose file is an index of faiss."""

    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """Open the index in folder `path`; a hit's row is the vector's, and `rows` is unused."""
        return CompressedSearcher.open(path)


class Narrow(FaissBackend):
    """Shared by scalar quantisation: every number in fewer bytes."""

    number: ClassVar[int]

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The codes."""
        return vectors * dimension * self.number


@dataclass(frozen=True)
class Sq8(Narrow):
    """Eight bits per number: d bytes per vector, a quarter of the flat index.

    Args:
        sample: how many vectors at most the range of each dimension is taken from.
        seed: of the sample.
    """

    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    number: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self._training().check()

    def _training(self) -> Training:
        return Training("sq8", self.sample, 1, self.seed, "the ranges of its numbers")

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compresses the vectors of the dense index folder `source`, block by block; returns their number.

        Raises:
            MissingDependency: without faiss.
            UsageError: there are no vectors.
        """
        return _build("QT_8bit", source, path, progress, self._training())


@dataclass(frozen=True)
class Fp16(Narrow):
    """Half precision: 2d bytes per vector, half of the flat index, with the same results but for near ties."""

    version: ClassVar[int] = 1
    number: ClassVar[int] = 2

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compresses the vectors of the dense index folder `source`, block by block; returns their number.

        Raises:
            MissingDependency: without faiss.
        """
        return _build("QT_fp16", source, path, progress)


def _build(quantiser: str, source: Path, path: Path, progress: Progress, training: Training | None = None) -> int:
    faiss, vectors = load_faiss(), FlatVectors.open(source)
    code = getattr(faiss.ScalarQuantizer, quantiser)
    index = faiss.IndexScalarQuantizer(vectors.dimension, code, faiss.METRIC_INNER_PRODUCT)
    return build(index, vectors, path, progress, training)


_NUMBER = 8  # bytes of a row's number in its list


def _check(name: str, lists: int, nprobe: int) -> None:
    if not 1 <= nprobe <= lists:
        raise UsageError(f"{name}: lists is {lists} and nprobe is {nprobe}: 1 ≤ nprobe ≤ lists must hold")


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

    def __post_init__(self) -> None:
        _check("ivf-flat", self.lists, self.nprobe)
        self._training().check()

    def _training(self) -> Training:
        return Training("ivf-flat", self.sample, self.lists, self.seed, f"{self.lists} lists")

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The vectors and the centres of lists."""
        return vectors * (4 * dimension + _NUMBER) + 4 * dimension * self.lists

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Assign the vectors of the dense index folder `source` to lists, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
            UsageError: there are fewer vectors than lists.
        """
        faiss, vectors, training = load_faiss(), FlatVectors.open(source), self._training()
        centres = faiss.IndexFlatIP(vectors.dimension)
        index = faiss.IndexIVFFlat(centres, vectors.dimension, self.lists, faiss.METRIC_INNER_PRODUCT)
        training.settle(index.cp)
        index.nprobe = self.nprobe
        return build(index, vectors, path, progress, training)


@dataclass(frozen=True)
class IvfPq(FaissBackend):
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

    def __post_init__(self) -> None:
        _check("ivfpq", self.lists, self.nprobe)
        self._codebook().check()
        self._codebook().training(self.lists).check()

    def _codebook(self) -> Codebook:
        return Codebook("ivfpq", self.subvectors, self.bits, self.sample, self.seed)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """That of its codes and lists."""
        return self._codebook().disk_bytes(vectors, dimension, self.lists)

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compress the vectors of the dense index folder `source`, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
            UsageError: `subvectors` does not divide the dimension, or there are fewer vectors than lists or centroids.
        """
        faiss, vectors, codebook = load_faiss(), FlatVectors.open(source), self._codebook()
        codebook.check_dimension(vectors.dimension)
        centres = faiss.IndexFlatIP(vectors.dimension)
        index = faiss.IndexIVFPQ(
            centres, vectors.dimension, self.lists, self.subvectors, self.bits, faiss.METRIC_INNER_PRODUCT
        )
        index.nprobe = self.nprobe
        return write_folder(index, codebook.codes_of(index, vectors, progress), len(vectors), source, path)


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
        vectors = FlatVectors.open(source)
        faiss = load_faiss()
        index = faiss.IndexHNSWFlat(vectors.dimension, self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        index.hnsw.rng = faiss.RandomGenerator(self.seed)
        make_room(faiss.downcast_index(index.storage), len(vectors))
        with threads(self.threads):
            for _ in encode_blocks(vectors, index.add, progress):
                pass
        return save(index, len(vectors), source, path)
