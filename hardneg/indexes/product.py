"""Inverted lists, sign bits, and product quantisation, which stores a centroid number for each of a vector's M parts.

Sources: H. Jégou, M. Douze, C. Schmid, Product quantization for nearest neighbor search, TPAMI 2011; the rotation:
T. Ge, K. He, Q. Ke, J. Sun, Optimized product quantization for approximate nearest neighbor search, CVPR 2013.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.indexes import checks, compressed
from hardneg.indexes.compressed import SAMPLE, innermost, load_faiss
from hardneg.indexes.exact import ExactOptions, to_device
from hardneg.indexes.top_k import BestRows
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Hits, UsageError
from hardneg.runtime import SEED, Progress, float32_products

SUBVECTORS, BITS = 48, 8
"""Default number of parts that a vector is split into, and default number of bits in each part's code."""
_NUMBER = 8  # bytes of a vector's row number in its list
_SCORES, _ROWS = 1 << 26, 65_536  # at a time: scores of a query and a vector; vectors whose codes are read


class ListedBackend(compressed.FaissBackend):
    """Base class of the backends with product-quantised vectors, inverted lists, or both.

    lists: number of inverted lists, or 0. subvectors: parts per vector. bits: bits per part; 0 for full vectors.
    """

    lists: int = 0
    nprobe: int = 0
    subvectors: int = 1
    bits: int = 0
    sample: int
    seed: int

    def __post_init__(self) -> None:
        if self.lists and not 1 <= self.nprobe <= self.lists:
            problem = f"lists is {self.lists} and nprobe is {self.nprobe}; nprobe must be between 1 and lists"
            raise UsageError(f"{self.name}: {problem}")
        if self.subvectors < 1 or not min(1, type(self).bits) <= self.bits <= 8:
            raise UsageError(
                f"{self.name}: subvectors is {self.subvectors} and bits is {self.bits}; "
                "subvectors must be at least 1, and bits from 1 to 8"
            )
        super().__post_init__()

    def _training(self) -> compressed.Training:
        centroids = 1 << self.bits
        what = f"{self.lists} lists" if self.lists >= centroids else f"{centroids} centroids ({self.bits} bits)"
        return compressed.Training(self.name, self.sample, self.seed, max(centroids, self.lists), what)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        code, centroids = (self.subvectors * self.bits / 8, 1 << self.bits) if self.bits else (4 * dimension, 0)
        return code + _NUMBER * bool(self.lists), 4 * dimension * (centroids + self.lists)


@dataclass(frozen=True)
class IvfFlat(ListedBackend):
    """Full vectors in `lists` inverted lists; a query probes `nprobe` lists.

    Args:
        lists: number of inverted lists, usually one to a few times the square root of the number of vectors.
        nprobe: number of lists to probe per query; stored in the index.
        sample: maximum number of vectors for training the list centroids.
        seed: random seed for the sample and the clustering.
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
    """Product-quantised residuals in `lists` inverted lists; a query probes `nprobe` lists.

    Args:
        subvectors: number of parts per vector; must divide the dimension.
        bits: number of bits per part, from 1 to 8; each part has 2^bits centroids.
        lists: number of inverted lists, usually one to a few times the square root of the number of vectors.
        nprobe: number of lists to probe per query; stored in the index.
        sample: maximum number of vectors for training the list centroids and the code centroids.
        seed: random seed for the sample and the clustering.
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
        compressed.check_parts(self.name, dimension, self.subvectors)
        parts = (self.lists, self.subvectors, self.bits)
        index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, *parts, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = self.nprobe
        return index


@dataclass(frozen=True)
class Pq(ListedBackend):
    """Product quantisation: `subvectors` * `bits` / 8 bytes per vector.

    Args:
        subvectors: number of parts per vector; must divide the dimension.
        bits: number of bits per part, from 1 to 8; each part has 2^bits centroids.
        sample: maximum number of vectors for training the centroids.
        seed: random seed for the sample and the clustering.
    """

    subvectors: int = SUBVECTORS
    bits: int = BITS
    sample: int = SAMPLE
    seed: int = SEED

    version: ClassVar[int] = 1
    name: ClassVar[str] = "pq"

    def _empty(self, dimension: int) -> Any:
        faiss = load_faiss()
        compressed.check_parts(self.name, dimension, self.subvectors)
        return faiss.IndexPQ(dimension, self.subvectors, self.bits, faiss.METRIC_INNER_PRODUCT)

    def open(self, path: Path, rows: RowLookup | None = None) -> "PqSearcher":
        """Open the index in folder `path`. Hits are already vector rows, so the id lookup `rows` is not used."""
        return PqSearcher.open(path)


@dataclass(frozen=True)
class OpqPq(Pq):
    """Product quantisation after a rotation that reduces the error: more accurate than `pq` at the same size.

    Args:
        subvectors: number of parts per vector; must divide the dimension.
        bits: number of bits per part, from 1 to 8; each part has 2^bits centroids.
        sample: maximum number of vectors for training the rotation and the centroids.
        seed: random seed for the sample and the clustering.
        iterations: number of alternating updates of the rotation and the codes.
    """

    iterations: int = 50

    version: ClassVar[int] = 1
    name: ClassVar[str] = "opq-pq"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise UsageError(f"opq-pq: iterations is {self.iterations}; it must be at least 1")
        super().__post_init__()

    def _empty(self, dimension: int) -> Any:
        inner, learner, faiss = super()._empty(dimension), super()._empty(dimension), load_faiss()
        self._training().settle(learner)
        rotation = faiss.OPQMatrix(dimension, self.subvectors)
        rotation.pq, rotation.max_train_points, rotation.niter = learner.pq, self.sample, self.iterations
        index = faiss.IndexPreTransform(rotation, inner)
        index.referenced_objects.append(learner)  # the rotation only points to it while it is trained
        return index

    def _bytes(self, dimension: int) -> tuple[float, int]:
        code, tables = super()._bytes(dimension)
        return code, tables + 4 * dimension * dimension


@dataclass
class CodeLookup:
    """Product-quantised vectors in torch; a score sums the inner products of the query's parts with centroids.

    codes: uint8 [M, N]. centroids: float32 [M, C, d / M]. rotation: float32 [d, d], applied to queries; or None.
    """

    codes: Tensor
    centroids: Tensor
    rotation: Tensor | None

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best vectors of each query: scores float32 and rows int64, [Q, depth], padded with -inf and -1."""
        best = BestRows(1, depth)
        with torch.inference_mode(), float32_products(self.codes.device):
            wanted = to_device(queries, self.codes.device)
            turned = wanted if self.rotation is None else wanted @ self.rotation.T
            products = torch.einsum("qmd,mcd->mqc", turned.view(len(wanted), len(self.codes), -1), self.centroids)
            step = max(1, _SCORES // max(1, len(wanted)))
            for start in range(0, self.codes.shape[1], step):
                codes = self.codes[:, start : start + step]
                sums = torch.zeros((len(wanted), codes.shape[1]), device=codes.device)
                for table, code in zip(products, codes, strict=True):
                    sums += table.index_select(1, code.int())
                best.add(0, sums, start)
            hits = best.hits(len(queries))
        return hits.scores, hits.rows


@dataclass(frozen=True)
class PqSearcher(compressed.CompressedSearcher):
    """An open index of product-quantised vectors (`hardneg.protocols.ProductSearcher`)."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the index in folder `path`.

        Raises:
            MissingDependency: faiss is not installed.
            ArtifactError: a file is missing, damaged, or of another index type.
        """
        opened = compressed.CompressedSearcher.open(path)
        if not isinstance(innermost(opened.index), load_faiss().IndexPQ):
            raise ArtifactError(f"{path / 'index'}: not a product-quantised index; build one with `pq` or `opq-pq`")
        return cls(path, opened.index)

    def codes(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the codes of the vectors in `rows`, int64 [n]: uint8 [n, M], a centroid number for each part.

        Raises:
            UsageError: a row is not in the index.
        """
        checks.check_rows(rows, self.index.ntotal)
        quantiser = innermost(self.index).pq
        packed = np.ascontiguousarray(self._packed()[rows])
        if quantiser.nbits == 8:
            return packed
        unpacked = load_faiss().unpack_bitstrings(packed, quantiser.M, quantiser.nbits)
        return np.asarray(unpacked, np.uint8)

    def centroids(self) -> NDArray[np.float32]:
        """Return the centroids of all parts: float32 [M, 2^bits, d / M]."""
        quantiser = innermost(self.index).pq
        flat = load_faiss().vector_to_array(quantiser.centroids)
        return np.asarray(flat, np.float32).reshape(quantiser.M, quantiser.ksub, quantiser.dsub)

    def rotation(self) -> NDArray[np.float32] | None:
        """Return the matrix R, float32 [d, d], that rotates a vector x to R x before it is split, or None."""
        faiss = load_faiss()
        if not isinstance(self.index, faiss.IndexPreTransform):
            return None
        linear = faiss.downcast_VectorTransform(self.index.chain.at(0))
        return np.asarray(faiss.vector_to_array(linear.A), np.float32).reshape(linear.d_out, linear.d_in)

    def write_with_centroids(self, out: Path, centroids: NDArray[np.float32]) -> None:
        """Write an index with the same codes and new centroids, float32 [M, 2^bits, d / M], to folder `out`.

        Raises:
            UsageError: the centroids have another shape, or contain non-finite numbers.
        """
        own = self.centroids()
        if centroids.shape != own.shape or not np.isfinite(centroids).all():
            raise UsageError(f"centroids have shape {centroids.shape}; they must be finite and have shape {own.shape}")
        index, packed = trained_product(centroids, self.rotation()), self._packed()
        blocks = (packed[start : start + _ROWS] for start in range(0, len(packed), _ROWS))
        compressed.write_folder(index, blocks, self.index.ntotal, self.path, out)

    def install(self, centroids: NDArray[np.float32]) -> None:
        """Replace the centroids in memory, float32 [M, 2^bits, d / M], for later searches; the file is unchanged."""
        flat = np.ascontiguousarray(centroids, np.float32).ravel()
        load_faiss().copy_array_to_vector(flat, innermost(self.index).pq.centroids)
        if self.copy is not None:
            self.copy.centroids = to_device(centroids, self.copy.codes.device)

    def using(self, options: ExactOptions, progress: Progress | None) -> "PqSearcher":
        """Return a searcher that uses torch if `options` selects a GPU with enough memory for the codes, else faiss."""
        fits = innermost(self.index).pq.M * self.index.ntotal <= options.for_few().resident
        return replace(self, copy=self.lookup(options.where) if options.where.type == "cuda" and fits else None)

    def lookup(self, device: torch.device) -> CodeLookup:
        """Return a searcher of the same vectors in torch, with a copy of the codes on `device`."""
        count, rotation = self.index.ntotal, self.rotation()
        codes = torch.empty((innermost(self.index).pq.M, count), dtype=torch.uint8, device=device)
        for start in range(0, count, _ROWS):
            rows = np.arange(start, min(start + _ROWS, count))
            codes[:, start : start + len(rows)] = torch.from_numpy(self.codes(rows)).to(device).T
        turned = None if rotation is None else to_device(rotation, device)
        return CodeLookup(codes, to_device(self.centroids(), device), turned)

    def _packed(self) -> NDArray[np.uint8]:
        """Return a view of all stored codes, uint8 [N, bytes per vector]."""
        inner = innermost(self.index)
        view: NDArray[np.uint8] = load_faiss().rev_swig_ptr(inner.codes.data(), inner.codes.size())
        return view.reshape(inner.ntotal, inner.code_size)


def trained_product(centroids: NDArray[np.float32], rotation: NDArray[np.float32] | None) -> Any:
    """Return an empty faiss index with centroids float32 [M, C, d / M] and, unless None, a rotation float32 [d, d]."""
    faiss = load_faiss()
    parts, count, width = centroids.shape
    index = faiss.IndexPQ(parts * width, parts, count.bit_length() - 1, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(np.ascontiguousarray(centroids, np.float32).ravel(), index.pq.centroids)
    index.is_trained = True
    if rotation is None:
        return index
    linear = faiss.LinearTransform(parts * width, parts * width, False)
    faiss.copy_array_to_vector(np.ascontiguousarray(rotation, np.float32).ravel(), linear.A)
    linear.is_trained = True
    linear.set_is_orthonormal()
    return faiss.IndexPreTransform(linear, index)


RESCORED, LEAST_RESCORED = 4, 1_000
"""Number of documents to rescore, nearest by Hamming distance first: per requested hit, and at least per query."""
_UNPACKED = 4 << 20  # bytes of bits unpacked to float32 at a time, so that they stay in caches


@dataclass(frozen=True)
class Binary(compressed.FaissBackend):
    """One sign bit per number: d / 8 bytes per vector, 1/32 of the size of `flat`.

    The score of a query q with a document x is q · sign(x) / sqrt(d). The file is a faiss product quantiser with d
    one-bit parts and the centroids -1 / sqrt(d) and +1 / sqrt(d).
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = "binary"

    def _empty(self, dimension: int) -> Any:
        if dimension % 8:
            raise UsageError(f"binary: the dimension of the vectors must be a multiple of 8, not {dimension}")
        signs = np.array([-1, 1], np.float32) / np.sqrt(dimension, dtype=np.float32)
        return trained_product(np.broadcast_to(signs[None, :, None], (dimension, 2, 1)), None)

    def open(self, path: Path, rows: RowLookup | None = None) -> "BinarySearcher":
        """Open the index in folder `path`. Hits are already vector rows, so the id lookup `rows` is not used."""
        return BinarySearcher.open(path)

    def _bytes(self, dimension: int) -> tuple[float, int]:
        return dimension // 8, 0


@dataclass(frozen=True)
class BinarySearcher(PqSearcher):
    """An open `binary` index, which rescores the documents nearest by Hamming distance with the full query vector."""

    def using(self, options: Any, progress: Progress | None) -> "BinarySearcher":
        """Return this searcher unchanged, since Hamming distances are computed on the CPU."""
        return self

    @cached_property
    def _bits(self) -> Any:
        faiss = load_faiss()
        bits = faiss.IndexBinaryFlat(self.index.d)
        bits.use_heap = False  # counting by distance keeps the first of equally distant rows
        bits.add(self._packed())
        return bits

    def _best(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Rescore the documents nearest by Hamming distance, ties by ascending row."""
        depth = min(self.index.ntotal, max(RESCORED * k, LEAST_RESCORED))
        if not depth:
            return checks.no_hits(len(queries), k)
        query_bits = np.packbits(queries > 0, axis=1, bitorder="little")
        rows: NDArray[np.int64] = self._bits.search(query_bits, depth)[1]
        scores, step = np.empty(rows.shape, np.float32), max(1, _UNPACKED // (4 * depth * self.index.d))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            signs = np.unpackbits(self._packed()[rows[part]], axis=-1, bitorder="little").astype(np.float32)
            products = np.matmul(signs, queries[part, :, None])[..., 0]  # sums over the dimensions with sign +
            scores[part] = (2 * products - queries[part].sum(1, keepdims=True)) / np.sqrt(self.index.d)
        hits = checks.in_order(rows, scores)
        return Hits(hits.rows[:, :k], hits.scores[:, :k])
