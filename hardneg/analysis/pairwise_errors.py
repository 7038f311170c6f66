"""Pairwise errors: how many negatives stand above each positive, in the whole corpus and within the top K.

A query's negatives are all documents but its known positives and the copies of these that the caller names.
Source: STAR/ADORE (Zhan et al., SIGIR 2021), sections 4.1 and 4.2, equations 3 to 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.ranks import Pass, counts_above, pair_scores

CUT = 200
"""K of table 1."""


@dataclass(frozen=True)
class Known:
    """Pairs of a query and a document that is no negative of it, each pair once.

    query: int64 [P], places of the queries, ascending. row: int64 [P], row numbers of the corpus.
    positive: bool [P]; false for a copy of a positive, which is neither positive nor negative.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    positive: NDArray[np.bool_]


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


def known_pairs(positives: Sequence[NDArray[np.int64]], copies: Sequence[NDArray[np.int64]] | None = None) -> Known:
    """The pairs of Q queries from their positives' rows, and their copies' rows where those are known: int64 [n] each.

    A row that is both is a positive.
    """
    rows, marks = [], []
    for place, found in enumerate(positives):
        own = np.unique(found)
        others = np.setdiff1d(copies[place], own) if copies is not None else own[:0]
        rows.append(np.concatenate([own, others]).astype(np.int64))
        marks.append(np.arange(len(own) + len(others)) < len(own))
    query = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    if not rows:
        return Known(query, np.empty(0, np.int64), np.empty(0, np.bool_))
    return Known(query, np.concatenate(rows), np.concatenate(marks))


def errors_of_positives(
    corpus: Pass, queries: NDArray[np.float32], known: Known, device: str = "cpu"
) -> NDArray[np.int64]:
    """The negatives above each positive, in the order of `known`, copies skipped; ties by ascending row.

    Args:
        corpus: starts a pass over the vectors: `functools.partial(vector_blocks, vectors, 4096)`. It is read twice;
            no more than a block and its scores are held.
        queries: float32 [Q, d].
        known: the pairs that are no negatives.
        device: where to compute.

    Returns:
        int64 [positives]: pi(d+) - delta(d+) - 1 of equation 3.
    """
    score = pair_scores(corpus, queries, known.query, known.row, device)
    order = np.lexsort((known.row, -score, known.query))
    first = np.searchsorted(known.query, known.query[order])
    known_above = np.empty(len(order), np.int64)
    known_above[order] = np.arange(len(order)) - first
    chosen = known.positive
    pairs = known.query[chosen], known.row[chosen], score[chosen]
    return counts_above(corpus, queries, pairs, device) - known_above[chosen]


def by_query(query_ids: Sequence[str], known: Known, errors: NDArray[np.int64], cut: int = CUT) -> PairwiseErrors:
    """The errors of positives, int64 [positives], summed by query; of each positive at most `cut` are top-K errors.

    Source: equations 5 (total) and 6 (top K).
    """
    place = known.query[known.positive]
    total, top = np.zeros(len(query_ids), np.int64), np.zeros(len(query_ids), np.int64)
    np.add.at(total, place, errors)
    np.add.at(top, place, np.minimum(errors, cut))
    return PairwiseErrors(query_ids, np.bincount(place, minlength=len(query_ids)), top, total, cut)
