"""All that cuVS is asked for: a graph of vectors on a GPU, and searches along it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import FlatVectors, MissingDependency, UsageError, compression, index_checks
from hardneg_cagra.graph import links_of

_MOST = 512  # hits of a search, and near vectors that it holds
_QUERIES = 512  # at a time: the vectors of their hits are in memory
_BLOCK_BYTES = 256 << 20
_BUILT_ON = "cuda"


def load_cagra() -> Any:
    """The module `cuvs.neighbors.cagra`.

    Raises:
        UsageError: torch sees no GPU.
        MissingDependency: cuVS is not installed.
    """
    import torch

    if not torch.cuda.is_available():
        raise UsageError("cagra is built and searched on a GPU, and torch sees none here: take hnsw or ivf-flat")
    try:
        from cuvs.neighbors import cagra
    except ImportError as error:
        advice = 'cagra needs cuVS: pip install "hardneg-cagra[cuda12]", or "[cuda13]", as the GPU\'s driver has it'
        raise MissingDependency(advice) from error
    return cagra


@dataclass(frozen=True)
class Links:
    """degree: links of a vector; intermediate: of the graph that they are chosen from; algorithm: that makes that."""

    degree: int
    intermediate: int
    algorithm: str

    def of(self, vectors: FlatVectors) -> NDArray[np.uint32]:
        """uint32 [N, degree], the rows that each row is linked to.

        The vectors are on the GPU at once, 4 d bytes each, and the graphs beside them.
        """
        cagra = load_cagra()
        params = cagra.IndexParams(
            metric="inner_product",
            graph_degree=self.degree,
            intermediate_graph_degree=self.intermediate,
            build_algo=self.algorithm,
        )
        held = _on_gpu(vectors)
        graph = cagra.build(params, held)
        return np.asarray(graph.graph.copy_to_host()).astype(np.uint32, copy=False)


def _on_gpu(vectors: FlatVectors) -> Any:
    import torch

    held = torch.empty((len(vectors), vectors.dimension), device=_BUILT_ON)
    for start, block in index_checks.vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
        held[start : start + len(block)] = torch.from_numpy(block)
    torch.cuda.synchronize()  # cuVS has a stream of its own
    return held


@dataclass(frozen=True)
class GpuGraph:
    """An index of `hardneg_cagra.graph` searched on a GPU; `device` is torch's name of that, `width` what it holds."""

    index: Any
    device: str
    width: int

    @cached_property
    def _held(self) -> tuple[Any, Any]:
        """The vectors, and cuVS's index, which only points to them."""
        import torch

        faiss, storage = compression.load_faiss(), compression.load_faiss().downcast_index(self.index.storage)
        flat = faiss.rev_swig_ptr(storage.get_xb(), storage.ntotal * storage.d).reshape(storage.ntotal, storage.d)
        with torch.cuda.device(self.device):
            vectors = torch.from_numpy(flat).to(self.device)
            links = torch.from_numpy(links_of(self.index)).to(self.device)
            torch.cuda.synchronize()
            return vectors, load_cagra().from_graph(links, vectors, metric="inner_product")

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores float32 and rows int64 [Q, depth]; longer lists than a GPU gives come from the CPU.

        The scores are the products of the whole vectors, in float32.
        """
        if depth > _MOST:
            scores, rows = self.index.search(queries, depth)
            return scores, rows
        parts = [
            self._search_part(queries[start : start + _QUERIES], depth) for start in range(0, len(queries), _QUERIES)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _search_part(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        import torch

        cagra, (vectors, index) = load_cagra(), self._held
        with torch.cuda.device(self.device):
            held = torch.from_numpy(queries).to(self.device)
            torch.cuda.synchronize()
            params = cagra.SearchParams(itopk_size=_held_by_a_search(self.width, depth))
            ranked = np.asarray(cagra.search(params, index, held, depth)[1].copy_to_host()).astype(np.int64)
            ranked[ranked >= len(vectors)] = -1
            rows = torch.from_numpy(ranked).to(self.device)
            scores = (vectors[rows.clamp(min=0)] * held[:, None]).sum(2)
        return scores.cpu().numpy(), ranked


def _held_by_a_search(width: int, depth: int) -> int:
    """A multiple of 32, as the kernels want it."""
    return min(_MOST, -(-max(width, depth) // 32) * 32)
