"""Exact ranks of chosen documents in the whole corpus, which is only ever seen block by block."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Pass = Callable[[], Iterable[tuple[int, NDArray[np.float32]]]]
"""Starts a pass over the corpus: (first row, float32 [n, d]) in row order, as `vector_blocks` gives them.

Every pass must cut the corpus in the same places, or equal vectors may differ in the last bit of their scores.
"""

_QUERIES = 1024


def pair_scores(
    corpus: Pass, queries: NDArray[np.float32], query: NDArray[np.int64], row: NDArray[np.int64], device: str = "cpu"
) -> NDArray[np.float32]:
    """Inner products of pairs of a query and a document, as the product of whole blocks has them.

    Args:
        corpus: starts a pass over the vectors.
        queries: float32 [Q, d].
        query: int64 [T], places in `queries`, ascending.
        row: int64 [T], row numbers of the corpus.
        device: where to compute.

    Returns:
        float32 [T].
    """
    scores = np.empty(len(query), np.float32)
    _check_order(query)
    for start, stop, part, block in _products(corpus, queries, query, row, device, only_held=True):
        inside = np.flatnonzero((row[part] >= start) & (row[part] < stop)) + part.start
        places = torch.from_numpy(query[inside] % _QUERIES), torch.from_numpy(row[inside] - start)
        scores[inside] = block[places].cpu().numpy()
    return scores


def counts_above(
    corpus: Pass,
    queries: NDArray[np.float32],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]],
    device: str = "cpu",
) -> NDArray[np.int64]:
    """How many documents of the corpus rank above each pair's document; of equal scores the lower row is above.

    Args:
        corpus: starts a pass over the vectors.
        queries: float32 [Q, d].
        pairs: query int64 [T], ascending; row int64 [T]; score float32 [T], from `pair_scores`.
        device: where to compute.

    Returns:
        int64 [T], 0 for the best document: its rank less one.
    """
    query, row, score = pairs
    counts = np.zeros(len(query), np.int64)
    _check_order(query)
    for start, _, part, block in _products(corpus, queries, query, row, device, only_held=False):
        for first in range(part.start, part.stop, _QUERIES):
            some = slice(first, min(first + _QUERIES, part.stop))
            scores = block.index_select(0, torch.from_numpy(query[some] % _QUERIES).to(block.device))
            counts[some] += _above(scores, row[some] - start, score[some])
    return counts


def _above(scores: Tensor, place: NDArray[np.int64], score: NDArray[np.float32]) -> NDArray[np.int64]:
    """Counts of each line [T, b] that are above `score` [T]; what stands before `place` [T] need only reach it."""
    width = scores.shape[1]
    reach = np.nextafter(score, np.float32(-np.inf), dtype=np.float32)
    bar = torch.from_numpy(np.where(place >= width, reach, score)).to(scores.device)
    held = np.flatnonzero((place >= 0) & (place < width))
    lines, places = torch.from_numpy(held).to(scores.device), torch.from_numpy(place[held]).to(scores.device)
    scores[lines, places] = -torch.inf
    counts = (scores > bar[:, None]).sum(1)
    before = torch.arange(width, device=scores.device) < places[:, None]
    counts[lines] += ((scores[lines] == bar[lines, None]) & before).sum(1)
    return counts.cpu().numpy()


def _products(
    corpus: Pass,
    queries: NDArray[np.float32],
    query: NDArray[np.int64],
    row: NDArray[np.int64],
    device: str,
    only_held: bool,
) -> Iterable[tuple[int, int, slice, Tensor]]:
    """Each block's first row and last one plus 1, the pairs of some queries, and float32 [those queries, block]."""
    parts = [torch.from_numpy(np.ascontiguousarray(queries[i : i + _QUERIES])).to(device) for i in _starts(queries)]
    edges = np.searchsorted(query, [*_starts(queries), len(queries)])
    for start, vectors in corpus():
        stop = start + len(vectors)
        block = torch.from_numpy(np.array(vectors, np.float32)).to(device)
        for i, part in enumerate(parts):
            pairs = slice(int(edges[i]), int(edges[i + 1]))
            rows = row[pairs]
            if len(rows) and (not only_held or bool(((rows >= start) & (rows < stop)).any())):
                yield start, stop, pairs, part @ block.T


def _starts(queries: NDArray[np.float32]) -> range:
    return range(0, len(queries), _QUERIES)


def _check_order(query: NDArray[np.int64]) -> None:
    if (np.diff(query) < 0).any():
        raise ValueError("pairs must be in the order of their queries")
