"""What miners share: going down a ranked list and leaving out what must not be a negative."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from hardneg.types import Candidates, Negatives


def refusal(query: Candidates, exclude_copies: bool) -> Callable[[str], str | None]:
    """A function that says why a document cannot be a negative of the query, or None where it can.

    It takes each document once: the second time it is `repeated`.
    """
    positives = frozenset(query.positives)
    copies = query.duplicates if exclude_copies else frozenset()
    seen: set[str] = set()

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


def select(query: Candidates, ranks: Iterable[int], count: int, exclude_copies: bool) -> Negatives:
    """The first `count` documents fit to be negatives at the given ranks, counted from 0, of the list."""
    ranking = query.ranking
    reason = refusal(query, exclude_copies)
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for rank in ranks:
        if len(kept) == count:
            break
        if (why := reason(ranking.doc_ids[rank])) is None:
            kept.append(rank)
        else:
            dropped[why] += 1
    doc_ids = [ranking.doc_ids[rank] for rank in kept]
    scores = np.asarray(ranking.scores, np.float32)[np.asarray(kept, np.int64)]
    return Negatives(query.query_id, query.positives, doc_ids, scores, dict(dropped))
