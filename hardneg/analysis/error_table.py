"""Pairwise errors as numbers to print and to draw: means over queries, and their distribution by decades."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.pairwise_errors import PairwiseErrors


@dataclass(frozen=True)
class Bucket:
    """Queries with `low` to `high` errors (both counted), as shares of all queries and of all errors."""

    low: int
    high: int
    queries: float
    errors: float

    @property
    def label(self) -> str:
        """How an axis names it."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


def distribution(errors: NDArray[np.int64]) -> list[Bucket]:
    """Shares by number of errors: 0, 1 to 9, 10 to 99, ... up to the decade of the largest; errors is int64 [Q].

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 3.
    """
    if not len(errors):
        return []
    edges = [0, *(10**i for i in range(len(str(int(errors.max()))) + 1))]
    if errors.max() == 0:
        edges = [0, 1]
    place = np.searchsorted(edges, errors, side="right") - 1
    queries = np.bincount(place, minlength=len(edges) - 1) / len(errors)
    summed = np.bincount(place, weights=errors, minlength=len(edges) - 1) / max(1, int(errors.sum()))
    return [Bucket(low, high - 1, float(queries[i]), float(summed[i])) for i, (low, high) in enumerate(pairwise(edges))]


def distribution_of(errors: PairwiseErrors) -> list[Bucket]:
    """The distribution of total errors, or of the top-K ones where only a run is known."""
    return distribution(errors.top if errors.total is None else errors.total)


def to_json(errors: PairwiseErrors) -> dict[str, Any]:
    """Means over queries, the distribution, and all by query."""
    return {
        "cut": errors.cut,
        "queries": len(errors.query_ids),
        "positives": int(errors.positives.sum()),
        "total_errors": None if errors.total is None else _mean(errors.total),
        "top_errors": _mean(errors.top),
        "at_least": errors.at_least,
        "left_out": dict(errors.left_out),
        "distribution": [asdict(bucket) for bucket in distribution_of(errors)],
        "per_query": {
            query_id: {"positives": positives, "total": total, "top": top}
            for query_id, positives, total, top in zip(
                errors.query_ids,
                errors.positives.tolist(),
                [None] * len(errors.top) if errors.total is None else errors.total.tolist(),
                errors.top.tolist(),
                strict=True,
            )
        },
    }


def _mean(values: NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else 0.0
