"""Vectors with fewer bits a number: eight, between the least and the largest of its place, or half precision."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.data.flat import FlatVectors
from hardneg.indexes.compressed import CompressedSearcher
from hardneg.indexes.compression import Training, encode_blocks, load_faiss, train, write_folder
from hardneg.progress import Progress
from hardneg.protocols import RowLookup


@dataclass(frozen=True)
class Sq8:
    """Eight bits a number: d bytes a vector, a quarter of the flat index.

    Args:
        sample: how many vectors at most to take each place's least and largest number from.
        seed: of the sample.
    """

    sample: int = 65_536
    seed: int = 42

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"

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

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """The index in folder `path`; a hit's row is the vector's, so `rows` is not asked."""
        return CompressedSearcher.open(path)


@dataclass(frozen=True)
class Fp16:
    """Half precision: 2d bytes a vector, half of the flat index, with the same results but for near ties."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Compresses the vectors of the dense index folder `source`, block by block; returns their number.

        Raises:
            MissingDependency: without faiss.
        """
        return _build("QT_fp16", source, path, progress)

    def open(self, path: Path, rows: RowLookup | None = None) -> CompressedSearcher:
        """The index in folder `path`; a hit's row is the vector's, so `rows` is not asked."""
        return CompressedSearcher.open(path)


def _build(kind: str, source: Path, path: Path, progress: Progress, training: Training | None = None) -> int:
    faiss, vectors = load_faiss(), FlatVectors.open(source)
    code = getattr(faiss.ScalarQuantizer, kind)
    index = faiss.IndexScalarQuantizer(vectors.dimension, code, faiss.METRIC_INNER_PRODUCT)
    if training is not None:
        train(index, vectors, training, progress)
    return write_folder(index, encode_blocks(vectors, index.sa_encode, progress), len(vectors), source, path)
