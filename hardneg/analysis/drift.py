"""How fixed negatives age while a model learns: their overlap with the real hard ones, and their best rank."""

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.ranks import Pass, counts_above, pair_scores


def overlap(static_rows: NDArray[np.int64], top_rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of each query's fixed negatives that is among the documents ranked highest now.

    Args:
        static_rows: int64 [Q, n], row numbers; -1 pads.
        top_rows: int64 [Q, K], row numbers; -1 pads.

    Returns:
        float64 [Q], from 0 to 1; nan for a query without fixed negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 4a.
    """
    width = int(max(static_rows.max(initial=0), top_rows.max(initial=0))) + 1
    lines = np.arange(len(static_rows))[:, None] * width
    there = static_rows >= 0
    found = there & np.isin(static_rows + lines, (top_rows + lines)[top_rows >= 0])
    shares = np.full(len(static_rows), np.nan)
    np.divide(found.sum(1), there.sum(1), out=shares, where=there.any(1))
    return shares


def best_rank(
    corpus: Pass, queries: NDArray[np.float32], static_rows: NDArray[np.int64], device: str = "cpu"
) -> NDArray[np.int64]:
    """The rank in the whole corpus of the highest ranked of each query's fixed negatives.

    Args:
        corpus: starts a pass over the vectors: `functools.partial(vector_blocks, vectors, 4096)`. It is read twice.
        queries: float32 [Q, d].
        static_rows: int64 [Q, n], row numbers; -1 pads.
        device: where to compute.

    Returns:
        int64 [Q], counted from 1, known positives counted too, ties by ascending row; 0 for a query without
        fixed negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), equation 8.
    """
    query, place = np.nonzero(static_rows >= 0)
    row = static_rows[query, place]
    score = pair_scores(corpus, queries, query, row, device)
    order = np.lexsort((row, -score, query))
    asked, first = np.unique(query[order], return_index=True)
    best = order[first]
    ranks = np.zeros(len(static_rows), np.int64)
    ranks[asked] = counts_above(corpus, queries, (asked, row[best], score[best]), device) + 1
    return ranks
