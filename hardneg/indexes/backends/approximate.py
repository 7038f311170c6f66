"""Inverted lists: each vector is in the list of its nearest centre, and a query probes a few lists.

Source: H. Jégou, M. Douze, C. Schmid, Product quantization for nearest neighbor search, TPAMI 2011 (IVFADC).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.backends.compressed import FaissBackend, build
from hardneg.indexes.kernels.faiss.compression import (
    BITS,
    SAMPLE,
    SUBVECTORS,
    Codebook,
    Training,
    encode_blocks,
    load_faiss,
    make_room,
    save,
    threads,
)
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Progress
from hardneg.runtime.seeding import SEED

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
        codebook.settle(index.cp)
        codebook.settle(index.pq.cp)
        index.nprobe = self.nprobe
        return build(index, vectors, path, progress, codebook.training(self.lists))


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
