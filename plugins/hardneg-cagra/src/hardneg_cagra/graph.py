"""A graph of links as a faiss index, so that a CPU searches what a GPU has built, and as an array again.

CAGRA's graph becomes the lowest level of an HNSW graph. The levels above, which say where a search of it begins, are
those of a small HNSW graph over one vector of `m`, as HNSW itself would draw so many (Malkov and Yashunin 2020,
section 4.1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import FlatVectors, Progress, compression, generator


def as_faiss(graph: NDArray[np.uint32], vectors: FlatVectors, ef_search: int, seed: int, progress: Progress) -> Any:
    """A `faiss.IndexHNSWFlat` of all vectors, in memory.

    Args:
        graph: uint32 [N, degree], the rows that each row is linked to; degree is even, and at least 8.
        vectors: N of them.
        ef_search: how many near vectors a search holds; it is stored in the index.
        seed: of the draw of vectors that are on upper levels.
    """
    faiss, links = compression.load_faiss(), graph.shape[1] // 2
    index = faiss.IndexHNSWFlat(vectors.dimension, links, faiss.METRIC_INNER_PRODUCT)
    compression.make_room(faiss.downcast_index(index.storage), len(vectors))
    for _ in compression.encode_blocks(vectors, index.storage.add, progress):
        pass
    index.ntotal, index.hnsw.efSearch = len(vectors), ef_search
    if len(vectors) == 0:
        return index
    upper = np.sort(generator(seed, "levels").choice(len(vectors), -(-len(vectors) // links), replace=False))
    small = _small(index, upper, links // 2)
    _link(index.hnsw, graph, upper, small)
    return index


def _small(index: Any, rows: NDArray[np.int64], links: int) -> Any:
    """An HNSW graph of some vectors of the index, the same on any number of threads."""
    faiss = compression.load_faiss()
    small = faiss.IndexHNSWFlat(index.d, links, faiss.METRIC_INNER_PRODUCT)
    with compression.threads(1):
        small.add(index.storage.reconstruct_batch(rows))
    return small


def _link(hnsw: Any, graph: NDArray[np.uint32], upper: NDArray[np.int64], small: Any) -> None:
    """Writes the links: `graph` on level 0, and those of `small` one level above its own."""
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
    """Copies links of `small`, in which vectors have other numbers and at most as many slots a level.

    Args:
        above: int32 [S], on how many levels each vector of `small` is.
        places: int64 [S, levels, slots], where the links of each stand in `links`.
    """
    faiss = compression.load_faiss()
    theirs, begin = faiss.vector_to_array(small.neighbors), faiss.vector_to_array(small.offsets).astype(np.int64)
    for level in range(int(above.max())):
        there = np.flatnonzero(above > level)
        count = small.nb_neighbors(level)
        neighbours = theirs[begin[there, None] + small.cum_nb_neighbors(level) + np.arange(count)]
        links[slots[there, level, :count]] = np.where(neighbours < 0, -1, upper[np.maximum(neighbours, 0)])


def links_of(index: Any) -> NDArray[np.uint32]:
    """The graph on the lowest level of an index of `as_faiss`: uint32 [N, degree]."""
    faiss, hnsw = compression.load_faiss(), index.hnsw
    starts, width = faiss.vector_to_array(hnsw.offsets).astype(np.int64), hnsw.nb_neighbors(0)
    links = faiss.rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size())
    neighbours: NDArray[np.uint32] = links[starts[:-1, None] + np.arange(width)].astype(np.uint32)
    return neighbours
