"""Product quantisation in inverted lists: only the vectors of the lists nearest to a query are scored.

Source: H. Jégou, M. Douze, C. Schmid, Product quantization for nearest neighbor search, TPAMI 2011 (IVFADC).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.data.flat import FlatVectors
from hardneg.errors import UsageError
from hardneg.indexes.compressed import CompressedSearcher
from hardneg.indexes.compression import Codebook, encode_blocks, load_faiss, train, write_folder
from hardneg.progress import Progress
from hardneg.protocols import RowLookup


@dataclass(frozen=True)
class IvfPq:
    """Product quantisation of the distances to the centres of `lists` lists, `nprobe` of which a query looks into.

    Args:
        subvectors: how many parts a vector is cut into; must divide its dimension.
        bits: of a part's code, from 1 to 8: it names one of 2^bits centroids.
        lists: how many there are; the square root of the number of vectors, or some times that, is usual.
        nprobe: how many lists a query looks into; it is stored in the index.
        sample: how many vectors at most the centres and the centroids are trained on.
        seed: of the sample and of the clustering.
    """

    subvectors: int = 48
    bits: int = 8
    lists: int = 256
    nprobe: int = 16
    sample: int = 65_536
    seed: int = 42

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        if not 1 <= self.nprobe <= self.lists:
            raise UsageError(f"ivfpq: lists is {self.lists} and nprobe is {self.nprobe}: 1 ≤ nprobe ≤ lists must hold")
        self._codebook().check()
        self._codebook().training(self.lists).check()

    def _codebook(self) -> Codebook:
        return Codebook("ivfpq", self.subvectors, self.bits, self.sample, self.seed)

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compresses the vectors of the dense index folder `source`, block by block; returns their number.

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
        train(index, vectors, codebook.training(self.lists), progress)
        return write_folder(index, encode_blocks(vectors, index.sa_encode, progress), len(vectors), source, path)

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """The index in folder `path`; a hit's row is the vector's, so `rows` is not asked."""
        return CompressedSearcher.open(path)
