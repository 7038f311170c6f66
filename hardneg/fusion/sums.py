"""One query's ranked lists as one: documents by the weighted sum of their scores, or of their reciprocal ranks."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.types import RankedList

Missing = Literal["lowest", "zero"]
"""What a document scores in a list that lacks it: that list's lowest score, or 0."""


def weighted_sum(lists: Sequence[RankedList], weights: Sequence[float], missing: Missing = "lowest") -> RankedList:
    """All documents of the lists by the sum of weight times score, equal ones by id; an empty list adds nothing.

    Sums are made in float64 and given as float32 [n], descending.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, the
    combination of BM25 and DPR.
    """
    doc_ids = sorted({doc_id for ranked in lists for doc_id in ranked.doc_ids})
    places = {doc_id: place for place, doc_id in enumerate(doc_ids)}
    total: NDArray[np.float64] = np.zeros(len(doc_ids))
    for ranked, weight in zip(lists, weights, strict=True):
        if len(ranked.doc_ids):
            values = np.full(len(doc_ids), float(ranked.scores.min()) if missing == "lowest" else 0.0)
            values[[places[doc_id] for doc_id in ranked.doc_ids]] = ranked.scores
            total += weight * values
    scores = total.astype(np.float32)
    order = np.argsort(-scores, kind="stable")
    return RankedList([doc_ids[place] for place in order.tolist()], scores[order])


def reciprocal_ranks(lists: Sequence[RankedList], weights: Sequence[float], constant: int = 60) -> RankedList:
    """All documents of the lists by the sum of weight / (constant + rank), ranks counted from 1.

    Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods (SIGIR 2009).
    """
    ranked = [
        RankedList(one.doc_ids, (1.0 / (constant + 1 + np.arange(len(one.doc_ids)))).astype(np.float64))
        for one in lists
    ]
    return weighted_sum(ranked, weights, "zero")
