"""Inverted lists: each vector is in the list of its nearest centre, and a query probes a few lists.

Source: H. Jégou, M. Douze, C. Schmid, Product quantization for nearest neighbor search, TPAMI 2011 (IVFADC).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.backends.compressed import Compressed, build
from hardneg.indexes.kernels.faiss.compression import BITS, SAMPLE, SUBVECTORS, Codebook, Training, load_faiss
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Progress
from hardneg.runtime.seeding import SEED

_NUMBER = 8  # bytes of a row's number in its list


def _check(name: str, lists: int, nprobe: int) -> None:
    if not 1 <= nprobe <= lists:
        raise UsageError(f"{name}: lists is {lists} and nprobe is {nprobe}: 1 ≤ nprobe ≤ lists must hold")


@dataclass(frozen=True)
class IvfFlat(Compressed):
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
class IvfPq(Compressed):
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
