"""How retrieval scores fall with the rank: a few high ones, then a long tail."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTHS = (10, 100, 1000)
_POINTS = 60
_QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


def score_tails(scores: Sequence[NDArray[np.float32]], depths: Sequence[int] = DEPTHS) -> list[dict[str, Any]]:
    """One curve a depth that some query's list reaches.

    A score counts as its share of the way from the last score of the list, cut at the depth, to the best one: the best
    is 1, the last 0, whatever the scale of the model's scores and wherever its zero is.

    Args:
        scores: float32 [n] a query, best first.
        depths: where lists are cut; those that are shorter are left out and counted, as are those of equal scores.

    Returns:
        For each depth: `ranks`, from 1 and not all of them; by rank the `mean` share over queries, its quantiles
        `low` (a tenth of the queries is below), `median` and `high` (nine tenths), and the mean `score` as it is;
        `half`, the first rank whose mean share is below one half.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3, with the last score for the corpus's average.
    """
    return [tail for depth in depths if (tail := _tail(scores, depth))]


def _tail(scores: Sequence[NDArray[np.float32]], depth: int) -> dict[str, Any] | None:
    long = [each[:depth] for each in scores if len(each) >= depth > 1]
    table = np.array(long, np.float64).reshape(len(long), depth)
    spread = table[:, 0] - table[:, -1]
    table = table[spread > 0]
    if not len(table):
        return None
    shares = (table - table[:, -1:]) / spread[spread > 0, None]
    ranks = np.unique(np.geomspace(1, depth, _POINTS).round().astype(np.int64))
    means, at = shares.mean(0), ranks - 1
    quantiles = {name: np.quantile(shares[:, at], q, axis=0).tolist() for name, q in _QUANTILES.items()}
    return {
        "depth": depth,
        "queries": len(table),
        "left_out": {"lists that are shorter": len(scores) - len(long), "equal scores": len(long) - len(table)},
        "ranks": ranks.tolist(),
        "mean": means[at].tolist(),
        **quantiles,
        "score": table.mean(0)[at].tolist(),
        "half": int(np.argmax(means < 0.5)) + 1,
    }
