"""Fusion of several ranked lists into one: by turns, by sums of scores, by reciprocal ranks, or as ranx does it.

Source of ranx's methods: Bassani and Romelli, ranx.fuse (CIKM 2022).
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Literal, get_args

from hardneg.records import LIST_DEPTH, RankedList
from hardneg.runtime.ranx_uncompiled import ranx_uncompiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Method = Literal["zip", "weighted-sum", "reciprocal-rank", "max", "mnz", "wsum"]
Norm = Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"]
METHODS: tuple[str, ...] = get_args(Method)
OF_RANX = ("max", "mnz", "wsum")
WITH_WEIGHTS = ("weighted-sum", "reciprocal-rank", "wsum")
Missing = Literal["lowest", "zero"]
"""The score of a document in a list that lacks it: that list's lowest score, or 0."""

RRF_CONSTANT = 60
"""Of reciprocal-rank, as its paper has it (Cormack, Clarke and Buettcher, SIGIR 2009)."""
_AT_ONCE = 512
_NAME = "{:08d}"


@dataclass(frozen=True)
class Fusion:
    """A fusion method with its numbers.

    weights: one a list, for `WITH_WEIGHTS`. missing: what `weighted-sum` adds for a document that a list lacks.
    constant: of `reciprocal-rank`. norm: ranx's normalization of the scores; None is its default, `min-max`. depth: how
    many documents are kept.
    """

    method: str
    weights: tuple[float, ...]
    missing: Missing = "lowest"
    constant: int = RRF_CONSTANT
    norm: Norm | None = None
    depth: int = LIST_DEPTH

    def problems(self) -> list[str]:
        """Return the values that do not fit this method, one line each."""
        faults = []
        if self.method not in WITH_WEIGHTS and set(self.weights) - {1.0}:
            faults.append(f"weights: {self.method} has none; leave them out, or take {', '.join(WITH_WEIGHTS)}")
        if self.norm is not None and self.method not in OF_RANX:
            faults.append(f"norm: {self.method} takes scores as they are; leave it out, or take {', '.join(OF_RANX)}")
        return faults

    def over(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        """Fuse each query's lists into one, cut at the depth; scores float32 [n], descending."""
        queries = iter(by_query)
        params = {"weights": list(self.weights)} if self.method in WITH_WEIGHTS else {}
        while block := list(islice(queries, _AT_ONCE)):
            if self.method == "zip":
                fused = [zipped(lists, self.depth) for lists in block]
            elif self.method == "reciprocal-rank":
                fused = [reciprocal_ranks(lists, self.weights, self.constant) for lists in block]
            elif self.method == "weighted-sum":
                fused = [weighted_sum(lists, self.weights, self.missing) for lists in block]
            else:
                fused = fused_by_ranx(block, self.method, self.norm or "min-max", params)
            for ranked in fused:
                yield RankedList(ranked.doc_ids[: self.depth], ranked.scores[: self.depth])


def weighted_sum(lists: Sequence[RankedList], weights: Sequence[float], missing: Missing = "lowest") -> RankedList:
    """Rank all documents of the lists by the sum of weight times score, ties by id; an empty list adds nothing.

    Sums are computed in float64 and returned as float32 [n], descending.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, the
    combination of BM25 and DPR.
    """
    import numpy as np

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
    import numpy as np

    ranks: list[Any] = [1.0 / (constant + 1 + np.arange(len(one.doc_ids))) for one in lists]
    by_rank = [RankedList(one.doc_ids, each) for one, each in zip(lists, ranks, strict=True)]
    return weighted_sum(by_rank, weights, "zero")


def zipped(lists: Sequence[RankedList], length: int) -> RankedList:
    """Interleave the lists, beginning with the first, until there are `length` documents; repeats are left out.

    A repeated document is left out and not replaced by the next of its list. What remains of longer lists
    follows in its order. The scores do not come from the lists: that of rank r is 1 / r, float32 [n].

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 3.4.
    """
    import numpy as np

    turns = (doc_id for turn in zip_longest(*(ranked.doc_ids for ranked in lists)) for doc_id in turn)
    doc_ids = list(dict.fromkeys(doc_id for doc_id in turns if doc_id is not None))[:length]
    return RankedList(doc_ids, (1.0 / np.arange(1, len(doc_ids) + 1)).astype(np.float32))


def fused_by_ranx(
    by_query: Sequence[Sequence[RankedList]], method: str, norm: str, params: Mapping[str, Any]
) -> list[RankedList]:
    """Fuse each query's lists by ranx; scores float32 [n], descending; every query has as many lists as the first.

    params: as ranx takes them (`weights`).

    Raises:
        MissingDependency: ranx cannot be imported.
    """
    import numpy as np

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
    import numpy as np
    from ranx import Run

    from hardneg.formats.runs import strictly_decreasing

    queries = {}
    for number, (ranked, known) in enumerate(zip(lists, doc_ids, strict=True)):
        names = {doc_id: _NAME.format(i) for i, doc_id in enumerate(known)}
        scores = strictly_decreasing(np.asarray(ranked.scores, np.float32)).tolist()
        queries[str(number)] = {names[doc_id]: score for doc_id, score in zip(ranked.doc_ids, scores, strict=True)}
    return Run(queries | {"none": {_NAME.format(0): 1.0}})


def _by_score(doc_ids: Sequence[str], scores: "NDArray[np.float32]") -> RankedList:
    """Rank documents, which are in the order of their ids, by descending score; ties by id."""
    import numpy as np

    order = np.argsort(-scores, stable=True)
    return RankedList([doc_ids[i] for i in order.tolist()], scores[order])
