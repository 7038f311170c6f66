"""The backend `cagra`: a graph built on a GPU by cuVS, saved as a faiss file."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg.plugin import compression, errors, index_files, protocols, runtime
from hardneg_cagra.graph import GpuGraph, as_faiss, built_graph

if TYPE_CHECKING:
    from hardneg.plugin import ExactOptions

_LEVEL_BYTES = 12  # per vector: its level, and the offset of its links


@dataclass(frozen=True)
class Cagra:
    """A graph over uncompressed vectors, built and searched on a GPU, or searched on a CPU as an HNSW graph.

    Source: H. Ootomo et al., CAGRA: Highly Parallel Graph Construction and Approximate Nearest Neighbor Search for
    GPUs, ICDE 2024.

    Args:
        degree: number of links per vector; even, at least 8.
        intermediate: number of links per vector in the initial graph.
        algorithm: how to build the initial graph: `ivf_pq`, from inverted lists and codes, or `nn_descent`.
        width: number of candidates kept during a search, at least the requested depth; stored in the index for CPUs.
        seed: random seed for sampling the vectors of the upper levels, where search on a CPU starts.
    """

    degree: int = 64
    intermediate: int = 128
    algorithm: Literal["ivf_pq", "nn_descent"] = "ivf_pq"
    width: int = 128
    seed: int = runtime.SEED

    version: ClassVar[int] = 1
    input: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        if self.degree < 8 or self.degree % 2 or self.intermediate < self.degree:
            problem = f"degree is {self.degree} and intermediate is {self.intermediate}"
            raise errors.UsageError(f"cagra: {problem}; degree must be even, at least 8, and at most `intermediate`")
        if not 1 <= self.width <= 512:
            raise errors.UsageError(f"cagra: width is {self.width}; it must be from 1 to 512")

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the size of the index in bytes: vectors, links and levels."""
        return vectors * (4 * dimension + 4 * self.degree + 4 + _LEVEL_BYTES)

    def build(self, source: Path, path: Path, progress: runtime.Progress) -> int:
        """Build a graph of the vectors in the dense index folder `source`; return the number of vectors.

        Raises:
            UsageError: there is no GPU, or there are too few vectors for the links.
            MissingDependency: cuVS or faiss is not installed.
        """
        vectors = index_files.FlatVectors.open(source)
        compression.load_faiss()
        if len(vectors) <= self.intermediate:
            problem = f"{source} has {len(vectors)} vectors, but intermediate is {self.intermediate}"
            raise errors.UsageError(f"cagra: {problem}; lower it, or use flat")
        graph = built_graph(vectors, self.degree, self.intermediate, self.algorithm)
        return compression.save(as_faiss(graph, vectors, self.width, self.seed, progress), len(vectors), source, path)

    def open(self, path: Path, rows: protocols.RowLookup | None = None) -> "CagraSearcher":
        """Open the index in folder `path`; hits are rows of vectors, so `rows` is unused."""
        return CagraSearcher.open_folder(path, self.width)


@dataclass(frozen=True)
class CagraSearcher(compression.CompressedSearcher):
    """An opened index, searched on the CPU unless `using` moves it to a GPU. width: candidates kept in a GPU search."""

    width: int = Cagra.width

    @classmethod
    def open_folder(cls, path: Path, width: int) -> "CagraSearcher":
        """Open the index in folder `path`.

        Raises:
            ArtifactError: a file is missing, damaged, or of another index type.
        """
        opened = compression.CompressedSearcher.open(path)
        if not isinstance(opened.index, compression.load_faiss().IndexHNSWFlat):
            raise errors.ArtifactError(f"{path / 'index'}: not a graph index; rebuild it")
        return cls(path, opened.index, width=width)

    def using(self, options: "ExactOptions", progress: runtime.Progress | None) -> "CagraSearcher":
        """Return a searcher on the device of `options` if it is a GPU and cuVS is installed, else on the CPU."""
        device = options.where
        there = device.type == "cuda" and find_spec("cuvs") is not None
        return replace(self, copy=GpuGraph(self.index, str(device), self.width) if there else None)
