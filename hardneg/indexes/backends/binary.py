"""One bit a number: the signs of a vector, searched by Hamming distance and rescored by the query's own numbers.

Source of the rescoring: Yamada, Asai and Hajishirzi, Efficient Passage Retrieval with Hashing for Open-domain Question
Answering, ACL 2021, section 3.2.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.backends.compressed import FaissBackend, build
from hardneg.indexes.backends.product import PqSearcher, trained_product
from hardneg.indexes.kernels.checks import in_order
from hardneg.indexes.kernels.faiss.compression import load_faiss
from hardneg.records.errors import UsageError
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress

RESCORED, LEAST_RESCORED = 4, 1_000
"""Documents that are rescored for each hit, the nearest by Hamming distance, and how many at least."""
_BYTES = 4 << 20  # of unpacked bits, float32, at a time: what stays in caches


@dataclass(frozen=True)
class Binary(FaissBackend):
    """The sign of each number: d / 8 bytes a vector, a thirty-second of the flat index.

    The score of a query q with a document x is q · sign(x) / sqrt(d). The file is faiss's product quantisation in d
    parts of one bit, with centroids of -1 / sqrt(d) and +1 / sqrt(d).
    """

    version: ClassVar[int] = 1

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Takes the signs of the vectors of the dense index folder `source`, block by block; returns their number.

        Raises:
            MissingDependency: without faiss.
            UsageError: the dimension is no multiple of 8.
        """
        vectors = FlatVectors.open(source)
        if (dimension := vectors.dimension) % 8:
            raise UsageError(f"binary: {source} has vectors of dimension {dimension}: a multiple of 8 is needed")
        signs = np.array([-1, 1], np.float32) / np.sqrt(dimension, dtype=np.float32)
        index = trained_product(np.broadcast_to(signs[None, :, None], (dimension, 2, 1)), None)
        return build(index, vectors, path, progress)

    def open(self, path: Path, rows: RowLookup | None = None) -> "BinarySearcher":
        """Open the index in folder `path`; a hit's row is the vector's, and `rows` is unused."""
        return BinarySearcher.open(path)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The codes."""
        return vectors * dimension // 8


@dataclass(frozen=True)
class BinarySearcher(PqSearcher):
    """An opened index of signs."""

    @classmethod
    def open(cls, path: Path) -> "BinarySearcher":
        """The index in folder `path`. Raises as that of product quantisation does."""
        opened = PqSearcher.open(path)
        return cls(opened.path, opened.index)

    def using(self, options: Any, progress: Progress | None) -> "BinarySearcher":
        """The same: distances of bits are computed on the CPU."""
        return self

    @cached_property
    def _bits(self) -> Any:
        faiss = load_faiss()
        bits = faiss.IndexBinaryFlat(self.index.d)
        bits.use_heap = False  # counted by distance, so that of equal ones the first rows stay
        bits.add(self._packed())
        return bits

    def _best(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rescores the nearest by Hamming distance, of equally near ones those of the first rows."""
        depth = min(self.index.ntotal, max(RESCORED * k, LEAST_RESCORED))
        if not depth:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        query_bits = np.packbits(queries > 0, axis=1, bitorder="little")
        rows: NDArray[np.int64] = self._bits.search(query_bits, depth)[1]
        scores, step = np.empty(rows.shape, np.float32), max(1, _BYTES // (4 * depth * self.index.d))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            signs = np.unpackbits(self._packed()[rows[part]], axis=-1, bitorder="little").astype(np.float32)
            products = np.matmul(signs, queries[part, :, None])[..., 0]  # of the numbers whose sign is +
            scores[part] = (2 * products - queries[part].sum(1, keepdims=True)) / np.sqrt(self.index.d)
        hits = in_order(rows, scores)
        return hits.rows[:, :k], hits.scores[:, :k]
