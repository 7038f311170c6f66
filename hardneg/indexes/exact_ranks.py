"""Exact ranks of given documents in the whole corpus, which is read block by block."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.indexes.checks import vector_blocks
from hardneg.indexes.exact import FlatSearcher
from hardneg.protocols import DenseSearcher

Pass = Callable[[], Iterable[tuple[int, NDArray[np.float32]]]]
"""A function that yields the blocks of the corpus in row order, as pairs of first row and vectors, float32 [n, d].

Every pass must split the corpus at the same rows; otherwise, scores of equal vectors may differ in the last bit.
"""

_QUERIES, _BLOCK = 1024, 4096
_Rows = NDArray[np.int64]


def corpus_pass(searcher: DenseSearcher, count: int) -> Pass:
    """Return a `Pass` over the `count` vectors of an index, in blocks of 4,096."""
    if isinstance(searcher, FlatSearcher):
        return partial(vector_blocks, searcher.flat, _BLOCK)
    starts = range(0, count, _BLOCK)
    return lambda: ((start, searcher.vectors(np.arange(start, min(start + _BLOCK, count)))) for start in starts)


def pair_scores(
    corpus: Pass, queries: NDArray[np.float32], query: NDArray[np.int64], row: NDArray[np.int64], device: str = "cpu"
) -> NDArray[np.float32]:
    """Return the inner products of T query-document pairs, bit-identical to products of whole blocks: float32 [T].

    queries: float32 [Q, d]. query: int64 [T], positions in `queries`, ascending. row: int64 [T], rows of the corpus.
    """
    scores = np.empty(len(query), np.float32)
    for start, stop, part, block in _products(corpus, queries, query, row, device, only_held=True):
        inside = np.flatnonzero((row[part] >= start) & (row[part] < stop)) + part.start
        cells = torch.from_numpy(query[inside] % _QUERIES), torch.from_numpy(row[inside] - start)
        scores[inside] = block[cells].cpu().numpy()
    return scores


def counts_above(
    corpus: Pass, queries: NDArray[np.float32], pairs: tuple[_Rows, _Rows, NDArray[np.float32]], device: str = "cpu"
) -> NDArray[np.int64]:
    """Return the number of documents that rank above each pair's document, with ties broken by row: int64 [T].

    queries: float32 [Q, d]. pairs: (query int64 [T], ascending; row int64 [T]; score float32 [T] from `pair_scores`).
    """
    query, row, score = pairs
    counts = np.zeros(len(query), np.int64)
    for start, _, part, block in _products(corpus, queries, query, row, device, only_held=False):
        for first in range(part.start, part.stop, _QUERIES):
            some = slice(first, min(first + _QUERIES, part.stop))
            scores = block.index_select(0, torch.from_numpy(query[some] % _QUERIES).to(block.device))
            counts[some] += _above(scores, row[some] - start, score[some])
    return counts


def _above(scores: Tensor, column: NDArray[np.int64], score: NDArray[np.float32]) -> NDArray[np.int64]:
    """Count the scores of each line [T, b] above `score` [T], or equal to it and before `column` [T]."""
    width = scores.shape[1]
    reach = np.nextafter(score, np.float32(-np.inf), dtype=np.float32)
    bar = torch.from_numpy(np.where(column >= width, reach, score)).to(scores.device)
    held = np.flatnonzero((column >= 0) & (column < width))
    lines, columns = torch.from_numpy(held).to(scores.device), torch.from_numpy(column[held]).to(scores.device)
    scores[lines, columns] = -torch.inf
    counts = (scores > bar[:, None]).sum(1)
    before = torch.arange(width, device=scores.device) < columns[:, None]
    counts[lines] += ((scores[lines] == bar[lines, None]) & before).sum(1)
    return counts.cpu().numpy()


def _products(
    corpus: Pass, queries: NDArray[np.float32], query: _Rows, row: _Rows, device: str, only_held: bool
) -> Iterable[tuple[int, int, slice, Tensor]]:
    """Yield a block's first row and end, a slice of the pairs, and the scores of their queries with the block."""
    if (np.diff(query) < 0).any():
        raise ValueError("pairs must be sorted by query")
    starts = range(0, len(queries), _QUERIES)
    parts = [torch.from_numpy(np.ascontiguousarray(queries[start : start + _QUERIES])).to(device) for start in starts]
    edges = np.searchsorted(query, [*starts, len(queries)])
    for start, vectors in corpus():
        stop = start + len(vectors)
        block = torch.from_numpy(np.array(vectors, np.float32)).to(device)
        for i, part in enumerate(parts):
            pairs = slice(int(edges[i]), int(edges[i + 1]))
            rows = row[pairs]
            if len(rows) and (not only_held or bool(((rows >= start) & (rows < stop)).any())):
                yield start, stop, pairs, part @ block.T


def overlap(static_rows: NDArray[np.int64], top_rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the fraction of each query's fixed negatives, int64 [Q, n], found among its top documents, int64 [Q, K].

    Both arrays are padded with -1. The result is float64 [Q] in [0, 1]; nan for a query without fixed negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 4a.
    """
    width = int(max(static_rows.max(initial=0), top_rows.max(initial=0))) + 1
    lines = np.arange(len(static_rows))[:, None] * width
    there = static_rows >= 0
    shared = there & np.isin(static_rows + lines, (top_rows + lines)[top_rows >= 0])
    shares = np.full(len(static_rows), np.nan)
    np.divide(shared.sum(1), there.sum(1), out=shares, where=there.any(1))
    return shares


def best_rank(
    corpus: Pass, queries: NDArray[np.float32], static_rows: NDArray[np.int64], device: str = "cpu"
) -> NDArray[np.int64]:
    """Return the best rank of each query's fixed negatives in the whole corpus: int64 [Q], counted from 1.

    Known positives are ranked too, ties are broken by ascending row, and queries without fixed negatives get 0.

    corpus: vectors, read twice. queries: float32 [Q, d]. static_rows: int64 [Q, n], row numbers, padded with -1.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), equation 8.
    """
    query, column = np.nonzero(static_rows >= 0)
    row = static_rows[query, column]
    score = pair_scores(corpus, queries, query, row, device)
    order = np.lexsort((row, -score, query))
    answered, first = np.unique(query[order], return_index=True)
    best = order[first]
    ranks = np.zeros(len(static_rows), np.int64)
    ranks[answered] = counts_above(corpus, queries, (answered, row[best], score[best]), device) + 1
    return ranks
