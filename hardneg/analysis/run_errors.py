"""Top-K pairwise errors from a run alone, whatever made it; what is below the run's depth is not known."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from hardneg.analysis.pairwise_errors import CUT, PairwiseErrors


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
    asked = [query_id for query_id in positives if query_id in top]
    left_out = {"queries without positives": unjudged, "queries that the run lacks": len(positives) - len(asked)}
    return PairwiseErrors(
        asked,
        np.array([len(positives[query_id]) for query_id in asked], np.int64),
        np.array([top[query_id] for query_id in asked], np.int64),
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
