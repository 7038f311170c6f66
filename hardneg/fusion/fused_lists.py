"""One ranked list of several: by sums of scores, by reciprocal ranks, by turns, or as ranx does it."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.fusion.methods import Missing
from hardneg.records.types import RankedList
from hardneg.runtime.ranx_uncompiled import ranx_uncompiled

_NAME = "{:08d}"


def weighted_sum(lists: Sequence[RankedList], weights: Sequence[float], missing: Missing = "lowest") -> RankedList:
    """Rank all documents of the lists by the sum of weight times score, ties by id; an empty list adds nothing.

    Sums are computed in float64 and returned as float32 [n], descending.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, the
    combination of BM25 and DPR.
    """
    doc_ids = sorted({doc_id for ranked in lists for doc_id in ranked.doc_ids})
    columns = {doc_id: column for column, doc_id in enumerate(doc_ids)}
    total: NDArray[np.float64] = np.zeros(len(doc_ids))
    for ranked, weight in zip(lists, weights, strict=True):
        if len(ranked.doc_ids):
            values = np.full(len(doc_ids), float(ranked.scores.min()) if missing == "lowest" else 0.0)
            values[[columns[doc_id] for doc_id in ranked.doc_ids]] = ranked.scores
            total += weight * values
    return _by_score(doc_ids, total.astype(np.float32))


def reciprocal_ranks(lists: Sequence[RankedList], weights: Sequence[float], constant: int) -> RankedList:
    """Rank all documents of the lists by the sum of weight / (constant + rank), ranks counted from 1.

    Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods (SIGIR 2009).
    """
    ranked = [
        RankedList(one.doc_ids, (1.0 / (constant + 1 + np.arange(len(one.doc_ids)))).astype(np.float64))
        for one in lists
    ]
    return weighted_sum(ranked, weights, "zero")


def zipped(lists: Sequence[RankedList], length: int) -> RankedList:
    """Interleave the lists, beginning with the first, until there are `length` documents; repeats are left out.

    A repeated document is left out and not replaced by the next of its list. What remains of longer lists
    follows in its order. The scores do not come from the lists: that of rank r is 1 / r, float32 [n].

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 3.4.
    """
    turns = (doc_id for turn in zip_longest(*(ranked.doc_ids for ranked in lists)) for doc_id in turn)
    doc_ids = list(dict.fromkeys(doc_id for doc_id in turns if doc_id is not None))[:length]
    return RankedList(doc_ids, (1.0 / np.arange(1, len(doc_ids) + 1)).astype(np.float32))


def fused_by_ranx(
    by_query: Sequence[Sequence[RankedList]], method: str, norm: str, params: Mapping[str, Any]
) -> list[RankedList]:
    """Fuse each query's lists by ranx; scores float32 [n], descending; every query has as many lists as the first.

    params: as ranx takes them (`weights`, `gamma`, `sigma`, `phi`, `k`).

    Raises:
        MissingDependency: ranx cannot be imported.
    """
    with ranx_uncompiled(f"method {method}"):
        from ranx import fuse

        doc_ids = [sorted({doc_id for ranked in lists for doc_id in ranked.doc_ids}) for lists in by_query]
        runs = [_as_ranx([lists[i] for lists in by_query], doc_ids) for i in range(len(by_query[0]))]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="unsafe cast", category=Warning)
            fused = fuse(runs, norm=None if norm == "none" else norm, method=method, params=dict(params))
    numbers = [_NAME.format(i) for i in range(max(map(len, doc_ids)))]
    return [
        _by_score(known, np.array([scores[number] for number in numbers[: len(known)]], np.float32))
        for known, scores in zip(doc_ids, (dict(fused[str(i)]) for i in range(len(doc_ids))), strict=True)
    ]


def _as_ranx(lists: Sequence[RankedList], doc_ids: Sequence[Sequence[str]]) -> Any:
    """Return a run of ranx, queries by number, and one more query: ranx refuses a run without documents.

    Documents are named by their number within the query, all equally long: compiled, ranx is compiled again for ids of
    another length. Equal scores are set apart, so that its ranks are the run's.
    """
    from ranx import Run

    from hardneg.formats.runs import strictly_decreasing

    queries = {}
    for number, (ranked, known) in enumerate(zip(lists, doc_ids, strict=True)):
        names = {doc_id: _NAME.format(i) for i, doc_id in enumerate(known)}
        scores = strictly_decreasing(np.asarray(ranked.scores, np.float32)).tolist()
        queries[str(number)] = {names[doc_id]: score for doc_id, score in zip(ranked.doc_ids, scores, strict=True)}
    return Run(queries | {"none": {_NAME.format(0): 1.0}})


def _by_score(doc_ids: Sequence[str], scores: NDArray[np.float32]) -> RankedList:
    """Rank documents, which are in the order of their ids, by descending score; ties by id."""
    order = np.argsort(-scores, stable=True)
    return RankedList([doc_ids[i] for i in order.tolist()], scores[order])
