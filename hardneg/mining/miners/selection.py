"""Shared by miners: select from a ranked list without documents that must not be negatives; rules for scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from hardneg.records import Candidates, Negatives, PluginError, RankedList

Reason = Callable[[str], str | None]
"""Why a document cannot be a negative of a query; None where it can."""

Rule = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.bool_]]
"""From candidates' scores float32 [n] and the lowest score of their query's positives, float32 [n] or [1], to bool [n].

Documents without a score (nan) are not kept, nor any by a rule that compares, where no positive has one.
"""


def check_counts(**counts: int) -> None:
    """Refuse options below 1. Raises PluginError."""
    if min(counts.values()) < 1:
        values = " and ".join(f"{name} {count}" if len(counts) > 1 else str(count) for name, count in counts.items())
        raise PluginError(f"{' and '.join(counts)} must be 1 or above, not {values}")


def check_threshold(rule: str, name: str, value: float) -> None:
    """Refuse a threshold that a rule cannot have. Raises PluginError."""
    if not isfinite(value):
        raise PluginError(f"{name} must be a number, not {value}")
    if rule == "pos-percent" and not 0 < value <= 1:
        raise PluginError(f"{name} must be above 0 and at most 1, not {value}")


def refusal(query: Candidates, exclude_copies: bool, taken: Iterable[str] = ()) -> Reason:
    """Return a function that gives the reason why a document cannot be a negative of the query, or None.

    It accepts each document once: the second time, or if already `taken`, it is `repeated`.
    """
    reasons = dict.fromkeys(taken, "repeated")
    reasons |= dict.fromkeys(query.duplicates if exclude_copies else (), "duplicate")
    reasons |= dict.fromkeys(query.positives, "positive")

    def reason(doc_id: str) -> str | None:
        why = reasons.get(doc_id)
        reasons.setdefault(doc_id, "repeated")
        return why

    return reason


def accepted(doc_ids: Iterable[str], reason: Reason, dropped: Counter[str]) -> Iterator[tuple[int, str]]:
    """Return the documents that `reason` accepts, each with its position; count the others by reason."""
    for position, doc_id in enumerate(doc_ids):
        if (why := reason(doc_id)) is None:
            yield position, doc_id
        else:
            dropped[why] += 1


def evenly(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return an order, int64 [sum of sizes], of concatenated lists that spreads each evenly over the whole."""
    shares = [(np.arange(size) + 0.5) / size for size in sizes if size]
    return np.concatenate(shares or [np.empty(0)]).argsort(kind="stable")


def select(query: Candidates, ranks: Sequence[int], count: int, exclude_copies: bool) -> Negatives:
    """Select the first `count` documents that may be negatives, at these ranks of the list, counted from 0."""
    ranking, dropped = query.ranking, Counter[str]()
    doc_ids = (ranking.doc_ids[rank] for rank in ranks)
    kept = [ranks[i] for i, _ in islice(accepted(doc_ids, refusal(query, exclude_copies), dropped), count)]
    scores = np.asarray(ranking.scores, np.float32)[kept]
    return Negatives(query.query_id, query.positives, [ranking.doc_ids[rank] for rank in kept], scores, dict(dropped))


RULES: Mapping[str, Callable[[float], Rule]] = {
    "denoised": lambda most: lambda scores, positive: scores < most,
    "max-score": lambda most: lambda scores, positive: scores <= most,
    "pos-margin": lambda width: lambda scores, positive: scores + width <= positive,
    "pos-percent": lambda share: lambda scores, positive: scores <= positive - np.abs(positive) * (1 - share),
}
"""The rule of each miner by the miner's name, from its threshold."""

COMPARING = ("pos-margin", "pos-percent")
"""The rules that compare a document's score with those of the query's positives."""


def scores_of(doc_ids: Sequence[str], scored: RankedList) -> NDArray[np.float32]:
    """Return the documents' scores in a list: float32 [n], nan for those that it lacks."""
    known = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)
