"""Shared by miners: select from a ranked list without documents that must not be negatives; rules for scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.records.types import Candidates, Negatives, RankedList

Rule = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.bool_]]
"""From candidates' scores float32 [n] and the lowest score of their query's positives, float32 [n] or [1], to bool [n].

Documents without a score (nan) are not kept, nor any by a rule that compares, where no positive has one.
"""


def refusal(query: Candidates, exclude_copies: bool, taken: Iterable[str] = ()) -> Callable[[str], str | None]:
    """Return a function that gives the reason why a document cannot be a negative of the query, or None.

    It accepts each document once: the second time, or if already `taken`, it is `repeated`.
    """
    positives = frozenset(query.positives)
    copies = query.duplicates if exclude_copies else frozenset()
    seen = set(taken)

    def reason(doc_id: str) -> str | None:
        if doc_id in positives:
            return "positive"
        if doc_id in copies:
            return "duplicate"
        if doc_id in seen:
            return "repeated"
        seen.add(doc_id)
        return None

    return reason


def fit_positions(
    doc_ids: Sequence[str], reason: Callable[[str], str | None]
) -> tuple[NDArray[np.int64], Counter[str]]:
    """Return the positions of the documents that `reason` accepts, int64 [n], ascending; count the others by reason."""
    reasons = [reason(doc_id) for doc_id in doc_ids]
    positions = np.array([i for i, why in enumerate(reasons) if why is None], np.int64)
    return positions, Counter(why for why in reasons if why is not None)


def evenly(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return an order, int64 [sum of sizes], of concatenated lists that spreads each evenly over the whole."""
    shares = [(np.arange(size) + 0.5) / size for size in sizes if size]
    return np.concatenate(shares or [np.empty(0)]).argsort(kind="stable")


def select(query: Candidates, ranks: Sequence[int], count: int, exclude_copies: bool) -> Negatives:
    """Select the first `count` documents that may be negatives, at these ranks of the list, counted from 0."""
    ranking = query.ranking
    doc_ids = [ranking.doc_ids[rank] for rank in ranks]
    kept = _fit(query, doc_ids, exclude_copies)[:count]
    looked_at = kept[-1] + 1 if len(kept) == count else len(doc_ids)
    left_out = [doc_ids[i] for i in sorted(set(range(looked_at)).difference(kept))]
    scores = np.asarray(ranking.scores, np.float32)[[ranks[i] for i in kept]]
    chosen = [doc_ids[i] for i in kept]
    reason = refusal(query, exclude_copies)
    reasons = dict(Counter(reason(doc_id) or "repeated" for doc_id in left_out))
    return Negatives(query.query_id, query.positives, chosen, scores, reasons)


def _fit(query: Candidates, doc_ids: Sequence[str], exclude_copies: bool) -> list[int]:
    """Return the positions of documents that may be negatives, each document once."""
    if len(set(doc_ids)) < len(doc_ids):
        reason = refusal(query, exclude_copies)
        return [i for i, doc_id in enumerate(doc_ids) if reason(doc_id) is None]
    excluded = query.duplicates.union(query.positives) if exclude_copies else frozenset(query.positives)
    return [i for i, doc_id in enumerate(doc_ids) if doc_id not in excluded]


def below(threshold: float) -> Rule:
    """Keep scores below the threshold.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1.3, with a threshold of 0.1.
    """
    return lambda scores, positive: scores < threshold


def at_most(threshold: float) -> Rule:
    """Keep scores up to the threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374).
    """
    return lambda scores, positive: scores <= threshold


def margin(width: float) -> Rule:
    """Keep scores at least `width` below the positive's.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.
    """
    return lambda scores, positive: scores + width <= positive


def share(of_positive: float) -> Rule:
    """Keep scores up to this share of the positive's.

    For a negative score s of the positive, the threshold is s - (1 - share) |s|.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos, with a share of 0.95.
    """
    return lambda scores, positive: scores <= positive - np.abs(positive) * (1 - of_positive)


RULES: Mapping[str, Callable[[float], Rule]] = {
    "denoised": below,
    "max-score": at_most,
    "pos-margin": margin,
    "pos-percent": share,
}
"""The rule of each miner by the miner's name, from its threshold."""

COMPARING = ("pos-margin", "pos-percent")
"""The rules that compare a document's score with those of the query's positives."""


def scores_of(doc_ids: Sequence[str], scored: RankedList) -> NDArray[np.float32]:
    """Return the documents' scores in a list: float32 [n], nan for those that it lacks."""
    known = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)


def lowest(scores: NDArray[np.float32]) -> np.float32:
    """Return the lowest score, nan where all are nan."""
    known = scores[~np.isnan(scores)]
    return np.float32(known.min()) if len(known) else np.float32(np.nan)
