"""Pairwise errors: how many negatives stand above each positive, in the whole corpus and within the top K.

A query's negatives are all documents but its known positives and the copies of these that are known.
Source: STAR/ADORE (Zhan et al., SIGIR 2021), sections 4.1 and 4.2, equations 3 to 6.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records.depths import TOP_DEPTH

CUT = TOP_DEPTH
"""K of table 1: as deep as negatives are chosen from."""


@dataclass(frozen=True)
class PairwiseErrors:
    """Errors of each query, summed over its positives.

    positives, top: int64 [Q]; total: int64 [Q], None where only a run's top is known. cut: K.
    at_least: positives that a run lacks and whose errors may be more than its list shows (they count in `top` with
    the negatives of the list). left_out: what does not count, by reason.
    """

    query_ids: Sequence[str]
    positives: NDArray[np.int64]
    top: NDArray[np.int64]
    total: NDArray[np.int64] | None
    cut: int = CUT
    at_least: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


def by_query(
    query_ids: Sequence[str], query_rows: NDArray[np.int64], errors: NDArray[np.int64], cut: int = CUT
) -> PairwiseErrors:
    """The errors of positives, int64 [positives], summed by query; of each positive at most `cut` are top-K errors.

    query_rows: int64 [positives], the row of each one's query.

    Source: equations 5 (total) and 6 (top K).
    """
    total, top = np.zeros(len(query_ids), np.int64), np.zeros(len(query_ids), np.int64)
    np.add.at(total, query_rows, errors)
    np.add.at(top, query_rows, np.minimum(errors, cut))
    return PairwiseErrors(query_ids, np.bincount(query_rows, minlength=len(query_ids)), top, total, cut)


def errors_in_run(
    lists: Iterable[tuple[str, Sequence[str]]],
    positives: Mapping[str, Collection[str]],
    cut: int = CUT,
    copies: Mapping[str, Collection[str]] | None = None,
) -> PairwiseErrors:
    """The errors within the top `cut` negatives of each query that has positives and a list.

    A positive that a list lacks stands below all of it. Where that list holds fewer than `cut` negatives the errors are
    a lower bound, which is counted in `at_least`.

    Args:
        lists: a query id and its documents' ids, best first.
        positives: known positives by query; queries without any, or without a list, are counted and left out.
        cut: K.
        copies: by query, copies of positives, which are no negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), equation 6.
    """
    top, at_least, unjudged = dict[str, int](), 0, 0
    for query_id, doc_ids in lists:
        if query_id not in positives or query_id in top:
            unjudged += 1
            continue
        above, negatives = _above(doc_ids, set(positives[query_id]), set((copies or {}).get(query_id, ())))
        missing = len(positives[query_id]) - len(above)
        top[query_id] = sum(min(count, cut) for count in above) + missing * min(negatives, cut)
        at_least += missing if negatives < cut else 0
    judged = [query_id for query_id in positives if query_id in top]
    left_out = {"queries without positives": unjudged, "queries that the run lacks": len(positives) - len(judged)}
    return PairwiseErrors(
        judged,
        np.array([len(positives[query_id]) for query_id in judged], np.int64),
        np.array([top[query_id] for query_id in judged], np.int64),
        None,
        cut,
        at_least,
        {reason: count for reason, count in left_out.items() if count},
    )


def _above(doc_ids: Sequence[str], positives: set[str], copies: set[str]) -> tuple[list[int], int]:
    """The number of negatives above each positive of a list, and that of all its negatives."""
    above, negatives = [], 0
    for doc_id in doc_ids:
        if doc_id in positives:
            above.append(negatives)
        elif doc_id not in copies:
            negatives += 1
    return above, negatives


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
    bucket = np.searchsorted(edges, errors, side="right") - 1
    queries = np.bincount(bucket, minlength=len(edges) - 1) / len(errors)
    summed = np.bincount(bucket, weights=errors, minlength=len(edges) - 1) / max(1, int(errors.sum()))
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
