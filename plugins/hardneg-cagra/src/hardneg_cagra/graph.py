"""CAGRA graphs from cuVS, as a faiss index for search on a CPU and as an array.

CAGRA's graph becomes the lowest level of an HNSW graph. The upper levels, which provide entry points, come from a small
HNSW graph over a sample of one in degree / 2 vectors, as in HNSW itself (Malkov and Yashunin 2020, section 4.1).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import compression, errors, index_checks, index_files, runtime

_MOST = 512  # maximum number of hits and of candidates in a GPU search
_QUERIES = 512  # queries at a time, as the vectors of their hits are in memory
_BLOCK_BYTES = 256 << 20
_BUILT_ON = "cuda"


def as_faiss(
    graph: NDArray[np.uint32], vectors: index_files.FlatVectors, ef_search: int, seed: int, progress: runtime.Progress
) -> Any:
    """Return a `faiss.IndexHNSWFlat` of all vectors, in memory.

    Args:
        graph: uint32 [N, degree], the rows that each row is linked to; degree is even, and at least 8.
        vectors: N vectors.
        ef_search: number of candidates kept during a search, stored in the index.
        seed: random seed for sampling the vectors of the upper levels.
    """
    faiss, links = compression.load_faiss(), graph.shape[1] // 2
    index = faiss.IndexHNSWFlat(vectors.dimension, links, faiss.METRIC_INNER_PRODUCT)
    compression.make_room(faiss.downcast_index(index.storage), len(vectors))
    for _ in compression.encode_blocks(vectors, index.storage.add, progress):
        pass
    index.ntotal, index.hnsw.efSearch = len(vectors), ef_search
    if len(vectors) == 0:
        return index
    upper = np.sort(runtime.generator(seed, "levels").choice(len(vectors), -(-len(vectors) // links), replace=False))
    small = _small(index, upper, links // 2)
    _link(index.hnsw, graph, upper, small)
    return index


def _small(index: Any, rows: NDArray[np.int64], links: int) -> Any:
    """Return an HNSW graph of the given vectors of an index; the graph does not depend on the number of threads."""
    faiss = compression.load_faiss()
    small = faiss.IndexHNSWFlat(index.d, links, faiss.METRIC_INNER_PRODUCT)
    with compression.threads(1):
        small.add(index.storage.reconstruct_batch(rows))
    return small


def _link(hnsw: Any, graph: NDArray[np.uint32], upper: NDArray[np.int64], small: Any) -> None:
    """Write the links of `graph` to level 0, and each level of `small` one level higher."""
    faiss = compression.load_faiss()
    heights = np.ones(len(graph), np.int32)
    above = faiss.vector_to_array(small.hnsw.levels)
    heights[upper] += above
    faiss.copy_array_to_vector(heights, hnsw.levels)
    hnsw.prepare_level_tab(len(graph), True)
    starts, width = faiss.vector_to_array(hnsw.offsets).astype(np.int64), graph.shape[1]
    links = faiss.rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size())
    links[starts[:-1, None] + np.arange(width)] = graph.astype(np.int32)
    slots = starts[upper, None] + width + np.arange(hnsw.nb_neighbors(1) * int(above.max()))
    _link_upper(small.hnsw, upper, above, links, slots.reshape(len(upper), -1, hnsw.nb_neighbors(1)))
    hnsw.entry_point, hnsw.max_level = int(upper[small.hnsw.entry_point]), small.hnsw.max_level + 1


def _link_upper(
    small: Any, upper: NDArray[np.int64], above: NDArray[np.int32], links: NDArray[np.int32], slots: NDArray[np.int64]
) -> None:
    """Copy the links of `small`, which numbers its vectors differently and has at most as many slots per level.

    Args:
        above: int32 [S], number of levels of each vector of `small`.
        slots: int64 [S, levels, slots], positions of its links in `links`.
    """
    faiss = compression.load_faiss()
    theirs, begin = faiss.vector_to_array(small.neighbors), faiss.vector_to_array(small.offsets).astype(np.int64)
    for level in range(int(above.max())):
        there = np.flatnonzero(above > level)
        count = small.nb_neighbors(level)
        neighbours = theirs[begin[there, None] + small.cum_nb_neighbors(level) + np.arange(count)]
        links[slots[there, level, :count]] = np.where(neighbours < 0, -1, upper[np.maximum(neighbours, 0)])


def links_of(index: Any) -> NDArray[np.uint32]:
    """Return the lowest level of an index from `as_faiss`: uint32 [N, degree], the rows that each row is linked to."""
    faiss, hnsw = compression.load_faiss(), index.hnsw
    starts, width = faiss.vector_to_array(hnsw.offsets).astype(np.int64), hnsw.nb_neighbors(0)
    links = faiss.rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size())
    neighbours: NDArray[np.uint32] = links[starts[:-1, None] + np.arange(width)].astype(np.uint32)
    return neighbours


def load_cagra() -> Any:
    """Return the module `cuvs.neighbors.cagra`.

    Raises:
        UsageError: torch sees no GPU.
        MissingDependency: cuVS is not installed.
    """
    import torch

    if not torch.cuda.is_available():
        raise errors.UsageError("cagra needs a GPU, but torch finds none; use hnsw or ivf-flat")
    try:
        from cuvs.neighbors import cagra
    except ImportError as error:
        advice = 'cagra needs cuVS: pip install "hardneg-cagra[cuda12]", or "[cuda13]" for a CUDA 13 driver'
        raise errors.MissingDependency(advice) from error
    return cagra


def built_graph(vectors: index_files.FlatVectors, degree: int, intermediate: int, algorithm: str) -> NDArray[np.uint32]:
    """Build a graph on the GPU and return the rows that each row is linked to, uint32 [N, degree].

    The GPU needs memory for 4 d bytes per vector and for the graphs. Raises the errors of `load_cagra`.

    degree, intermediate: links per vector in the final and initial graph. algorithm: how to build the initial graph.
    """
    import torch

    cagra = load_cagra()
    degrees = {"graph_degree": degree, "intermediate_graph_degree": intermediate}
    params = cagra.IndexParams(metric="inner_product", build_algo=algorithm, **degrees)
    held = torch.empty((len(vectors), vectors.dimension), device=_BUILT_ON)
    for start, block in index_checks.vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
        held[start : start + len(block)] = torch.from_numpy(block)
    torch.cuda.synchronize()  # cuVS uses its own stream
    return np.asarray(cagra.build(params, held).graph.copy_to_host()).astype(np.uint32, copy=False)


@dataclass(frozen=True)
class GpuGraph:
    """A GPU searcher for an index from `as_faiss`. device: torch device. width: candidates kept during a search."""

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
        """Return scores, float32 [Q, depth], and rows, int64 [Q, depth], -1 where there is no hit.

        Scores are exact inner products. For depths above 512, the search runs on the CPU.
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
            held_by_a_search = min(_MOST, -(-max(self.width, depth) // 32) * 32)  # a multiple of 32, for the kernels
            params = cagra.SearchParams(itopk_size=held_by_a_search)
            ranked = np.asarray(cagra.search(params, index, held, depth)[1].copy_to_host()).astype(np.int64)
            ranked[ranked >= len(vectors)] = -1
            rows = torch.from_numpy(ranked).to(self.device)
            scores = (vectors[rows.clamp(min=0)] * held[:, None]).sum(2)
        return scores.cpu().numpy(), ranked
