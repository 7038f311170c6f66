"""What miners share: going down a ranked list and leaving out what must not be a negative."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hardneg.types import Candidates, Negatives


def refusal(query: Candidates, exclude_copies: bool, taken: Iterable[str] = ()) -> Callable[[str], str | None]:
    """A function that says why a document cannot be a negative of the query, or None where it can.

    It takes each document once: the second time, and one that is `taken` already, it is `repeated`.
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


def select(query: Candidates, ranks: Sequence[int], count: int, exclude_copies: bool) -> Negatives:
    """The first `count` documents fit to be negatives at the given ranks, counted from 0, of the list."""
    ranking = query.ranking
    doc_ids = [ranking.doc_ids[rank] for rank in ranks]
    kept = _fit(query, doc_ids, exclude_copies)[:count]
    looked_at = kept[-1] + 1 if len(kept) == count else len(doc_ids)
    left_out = [doc_ids[place] for place in sorted(set(range(looked_at)).difference(kept))]
    scores = np.asarray(ranking.scores, np.float32)[[ranks[place] for place in kept]]
    chosen = [doc_ids[place] for place in kept]
    return Negatives(query.query_id, query.positives, chosen, scores, _reasons(query, left_out, exclude_copies))


def _fit(query: Candidates, doc_ids: Sequence[str], exclude_copies: bool) -> list[int]:
    """Places of documents that may be negatives, each document once."""
    if len(set(doc_ids)) < len(doc_ids):
        reason = refusal(query, exclude_copies)
        return [place for place, doc_id in enumerate(doc_ids) if reason(doc_id) is None]
    excluded = query.duplicates.union(query.positives) if exclude_copies else frozenset(query.positives)
    return [place for place, doc_id in enumerate(doc_ids) if doc_id not in excluded]


def _reasons(query: Candidates, doc_ids: Sequence[str], exclude_copies: bool) -> dict[str, int]:
    """Why each of these was left out, counted."""
    reason = refusal(query, exclude_copies)
    return dict(Counter(reason(doc_id) or "repeated" for doc_id in doc_ids))
