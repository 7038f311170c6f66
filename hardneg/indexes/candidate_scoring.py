"""Some documents a query, ranked by their vectors in an index; and cosines as angular scores."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.data.hash_index import ranges
from hardneg.errors import UsageError
from hardneg.indexes.max_passage import PooledSearcher
from hardneg.indexes.validation import check_queries, check_vectors, in_order
from hardneg.protocols import DenseSearcher, Searcher
from hardneg.types import Hits

_VECTORS = 1 << 14  # scored at a time


def rank_candidates(
    searcher: Searcher,
    queries: Sequence[str] | NDArray[np.float32],
    candidates: NDArray[np.int64],
    k: int,
    at_once: int = _VECTORS,
) -> Hits:
    """The k candidates of the largest inner product with each query; ties by ascending row, at rank k too.

    Args:
        searcher: over vectors; where it gives documents by the best of their vectors, so does this.
        queries: float32 [Q, d].
        candidates: int64 [Q, C], each query's own, as the rows that `searcher` gives; -1 pads short lists.
        k: how many; what a query has fewer is padded.
        at_once: about how many candidates are scored at a time.

    Raises:
        UsageError: for an index without vectors, texts, queries of another dimension or not finite, or rows that are
            not in the index.
    """
    dense = searcher.searcher if isinstance(searcher, PooledSearcher) else searcher
    if not isinstance(dense, DenseSearcher):
        raise UsageError("candidates are scored by their vectors, and this index has none: name a dense index")
    first = searcher.first if isinstance(searcher, PooledSearcher) else None
    wanted = check_vectors("dense", queries)
    rows = np.full((len(queries), max(k, candidates.shape[1])), -1, np.int64)
    rows[:, : candidates.shape[1]] = candidates
    scores = np.full(rows.shape, -np.inf, np.float32)
    step = max(1, at_once // rows.shape[1])
    for start in range(0, len(queries), step):
        owner, column = np.nonzero(rows[start : start + step] >= 0)
        scores[start + owner, column] = _scores(dense, wanted[start + owner], rows[start + owner, column], first)
    hits = in_order(rows, scores)
    return Hits(hits.rows[:, :k], hits.scores[:, :k])


def _scores(
    dense: DenseSearcher, queries: NDArray[np.float32], rows: NDArray[np.int64], first: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    """Each query's inner product with the row beside it, float32 [n]; with a document's best vector, given `first`."""
    if not len(rows):
        return np.empty(0, np.float32)
    if first is None:
        return _products(dense, queries, rows)
    place, owner = ranges(first[rows], first[rows + 1])
    begins = np.searchsorted(owner, np.arange(len(rows)))
    best: NDArray[np.float32] = np.maximum.reduceat(_products(dense, queries[owner], place), begins)
    return best


def _products(dense: DenseSearcher, queries: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    vectors = dense.vectors(rows)
    check_queries(queries, vectors.shape[1], 1)
    products: NDArray[np.float32] = np.einsum("nd,nd->n", vectors, queries)
    return products


def angular_scores(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 - arccos(cosine) / pi, float32 of the same shape, between 0 and 1: in the order of the cosines.

    Source: Cer et al., Universal Sentence Encoder (2018), section 5, over pi as in Wrzalik and Krechel, HSRM-LAVIS at
    TREC 2020 Deep Learning Track (2020), Eq. 1.
    """
    angles = np.arccos(np.clip(cosines, -1, 1, dtype=np.float64))
    scores: NDArray[np.float32] = (1 - angles / np.pi).astype(np.float32)
    return scores
