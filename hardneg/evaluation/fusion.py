"""Fuse ranked lists by interleaving, sums of scores, reciprocal ranks or ranx, and tune the parameters.

Source of ranx's methods: Bassani and Romelli, ranx.fuse (CIKM 2022).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product, zip_longest
from typing import Any, Literal, NamedTuple, get_args

from hardneg.records import LIST_DEPTH, DataError, RankedList, UsageError, counted, suggestion
from hardneg.runtime import Progress
from hardneg.runtime.ranx_uncompiled import ranx_uncompiled

Method = Literal["zip", "weighted-sum", "reciprocal-rank", "max", "mnz", "wsum"]
Norm = Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"]
METHODS: tuple[str, ...] = get_args(Method)
OF_RANX = ("max", "mnz", "wsum")
WITH_WEIGHTS = ("weighted-sum", "reciprocal-rank", "wsum")
Missing = Literal["lowest", "zero"]
"""The score for a document missing from a list: the lowest score in the list, or 0."""

RRF_CONSTANT = 60
"""The constant of reciprocal-rank (Cormack, Clarke and Buettcher, SIGIR 2009)."""
_AT_ONCE, _STEPS = 512, 10
_NAME = "{:08d}"

Run = Mapping[str, RankedList]
Judged = Mapping[str, Mapping[str, int]]
Grid = Mapping[str, Sequence[float]]
"""The values to try for each parameter: `constant`, or a run's label for the weight of that run."""


@dataclass(frozen=True)
class Fusion:
    """A fusion method with its parameters.

    weights: one weight per list, for methods in `WITH_WEIGHTS`. missing: the score that `weighted-sum` gives a document
    missing from a list. constant: the constant of `reciprocal-rank`. norm: score normalization in ranx; None is ranx's
    default, `min-max`. depth: the maximum length of a fused list.
    """

    method: str
    weights: tuple[float, ...]
    missing: Missing = "lowest"
    constant: int = RRF_CONSTANT
    norm: Norm | None = None
    depth: int = LIST_DEPTH

    def problems(self) -> list[str]:
        """Return messages on weights or a norm that are set although this method does not use them; may be empty."""
        faults = []
        if self.method not in WITH_WEIGHTS and set(self.weights) - {1.0}:
            faults.append(f"weights: {self.method} does not use weights; omit them, or use {', '.join(WITH_WEIGHTS)}")
        if self.norm is not None and self.method not in OF_RANX:
            faults.append(f"norm: {self.method} does not normalize scores; omit it, or use {', '.join(OF_RANX)}")
        return faults

    def over(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        """Yield one fused list per query, with at most `depth` documents and descending scores, float32 [n]."""
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
    """Rank the documents of all lists by the weighted sum of their scores, ties by id. An empty list adds nothing.

    A document missing from a list gets the list's lowest score, or 0 (`missing`). Scores: float32 [n], descending.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, the
    combination of BM25 and DPR.
    """
    import numpy as np

    doc_ids = sorted({doc_id for ranked in lists for doc_id in ranked.doc_ids})
    columns = {doc_id: column for column, doc_id in enumerate(doc_ids)}
    total: Any = np.zeros(len(doc_ids))
    for ranked, weight in zip(lists, weights, strict=True):
        if len(ranked.doc_ids):
            values = np.full(len(doc_ids), float(np.min(ranked.scores)) if missing == "lowest" else 0.0)
            values[[columns[doc_id] for doc_id in ranked.doc_ids]] = ranked.scores
            total += weight * values
    return _by_score(doc_ids, total)


def reciprocal_ranks(lists: Sequence[RankedList], weights: Sequence[float], constant: int) -> RankedList:
    """Rank the documents of all lists by the sum of weight / (constant + rank) over lists; ranks start at 1.

    Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods (SIGIR 2009).
    """
    ranks: list[Any] = [[1.0 / (constant + rank) for rank in range(1, len(one.doc_ids) + 1)] for one in lists]
    by_rank = [RankedList(one.doc_ids, each) for one, each in zip(lists, ranks, strict=True)]
    return weighted_sum(by_rank, weights, "zero")


def zipped(lists: Sequence[RankedList], length: int) -> RankedList:
    """Interleave the lists, starting with the first, up to `length` documents; repeated documents are skipped.

    A skipped document is not replaced by the next document of the same list. When shorter lists end, the rest of a
    longer list follows in order. The score at rank r is 1 / r, float32 [n].

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 3.4.
    """
    import numpy as np

    turns = (doc_id for turn in zip_longest(*(ranked.doc_ids for ranked in lists)) for doc_id in turn)
    doc_ids = list(dict.fromkeys(doc_id for doc_id in turns if doc_id is not None))[:length]
    return RankedList(doc_ids, (1.0 / np.arange(1, len(doc_ids) + 1)).astype(np.float32))


def fused_by_ranx(
    by_query: Sequence[Sequence[RankedList]], method: str, norm: str, params: Mapping[str, Any]
) -> list[RankedList]:
    """Fuse each query's lists with ranx; scores float32 [n], descending. All queries have the same number of lists.

    params: parameters in the form that ranx expects (`weights`).

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
    scores = [dict(fused[str(i)]) for i in range(len(doc_ids))]
    return [
        _by_score(known, [each[_NAME.format(i)] for i in range(len(known))])
        for known, each in zip(doc_ids, scores, strict=True)
    ]


def _as_ranx(lists: Sequence[RankedList], doc_ids: Sequence[Sequence[str]]) -> Any:
    """Return a ranx run with numbered queries, plus one query, because ranx rejects a run without documents.

    Documents are named by their number within the query, padded to one length, because compiled ranx is recompiled for
    ids of another length. Ties in the scores are broken, so that ranx keeps the ranks of the run.
    """
    from ranx import Run

    from hardneg.formats.runs import strictly_decreasing

    queries = {}
    for number, (ranked, known) in enumerate(zip(lists, doc_ids, strict=True)):
        names = {doc_id: _NAME.format(i) for i, doc_id in enumerate(known)}
        scores = strictly_decreasing(ranked.scores.astype("float32")).tolist()
        queries[str(number)] = {names[doc_id]: score for doc_id, score in zip(ranked.doc_ids, scores, strict=True)}
    return Run(queries | {"none": {_NAME.format(0): 1.0}})


def _by_score(doc_ids: Sequence[str], scores: Any) -> RankedList:
    """Rank documents, which are sorted by id, by descending score; ties are broken by id."""
    import numpy as np

    values = np.asarray(scores, np.float32)
    order = np.argsort(-values, stable=True)
    return RankedList([doc_ids[i] for i in order.tolist()], values[order])


class Tried(NamedTuple):
    """A fusion and the metric value that it achieved."""

    fusion: Fusion
    worth: float


@dataclass(frozen=True)
class Development:
    """The data to tune a fusion on: runs in the order of `labels`, judgements, a metric and its relevance level."""

    labels: Sequence[str]
    runs: Sequence[Run]
    qrels: Judged
    metric: str = "ndcg@10"
    relevance_level: int = 1

    def to_json(self, trials: Sequence[Tried]) -> dict[str, Any]:
        """Return the settings of the tuning and its trials, in the given order, as a JSON object."""
        tried = [{**numbers(each.fusion, self.labels), "worth": each.worth} for each in trials]
        settings = {"metric": self.metric, "relevance_level": self.relevance_level, "queries": len(self.qrels)}
        return {**settings, "tried": tried}


def variants(fusion: Fusion, labels: Sequence[str], grid: Grid) -> list[Fusion]:
    """Return one fusion for every combination of grid values; its other parameters are those of `fusion`.

    labels: run labels in the order of the weights. Without a grid, the weights vary in tenths that sum to 1.
    """
    if not grid:
        tenths = product(range(_STEPS + 1), repeat=len(labels))
        return [
            replace(fusion, weights=tuple(part / _STEPS for part in each)) for each in tenths if sum(each) == _STEPS
        ]
    trials = []
    for values in product(*(grid[name] for name in sorted(grid))):
        trial = dict(zip(sorted(grid), values, strict=True))
        weights = tuple(trial.get(label, weight) for label, weight in zip(labels, fusion.weights, strict=True))
        trials.append(replace(fusion, weights=weights, constant=int(trial.get("constant", fusion.constant))))
    return trials


def check_grid(method: str, labels: Sequence[str], grid: Grid) -> None:
    """Raise UsageError if the method has no weights, or the grid has an unknown parameter or an invalid value."""
    if method not in WITH_WEIGHTS:
        raise UsageError(f"{method} has no weights to tune; use one of {', '.join(WITH_WEIGHTS)}")
    known = (*labels, *(("constant",) if method == "reciprocal-rank" else ()))
    for name, values in grid.items():
        if name not in known:
            raise UsageError(f"grid: {method} has no {name!r}{suggestion(name, known)}; available: {', '.join(known)}")
        if not values:
            raise UsageError(f"grid: {name} has no values to try")
        if name == "constant" and any(value < 0 or value != int(value) for value in values):
            raise UsageError("grid: values of constant must be whole numbers, at least 0")


def tune(
    fusion: Fusion,
    known: Development,
    grid: Grid,
    fused: Sequence[str],
    mean: Callable[[str, Any, int, Run], float],
    progress: Progress,
) -> list[Tried]:
    """Evaluate the fusion with each setting of `grid` and return all trials, best first; ties go to the earlier one.

    known: the data to tune on. fused: ids of the queries to fuse afterwards. mean: a function of metric, judgements,
    relevance level and run that returns the run's mean over the judged queries.

    Raises:
        UsageError: the method has no weights, or the grid does not fit it.
        DataError: a query to fuse is judged, or a run has no judged query.
    """
    check_grid(fusion.method, known.labels, grid)
    if shared := set(known.qrels).intersection(fused):
        overlap = counted(len(shared), "query is", "queries are")
        raise DataError(f"tuning: {overlap} also in the runs to fuse, such as {min(shared)}; tune on other queries")
    for label, run in zip(known.labels, known.runs, strict=True):
        if not known.qrels.keys() & run.keys():
            raise DataError(f"tuning: no query of run {label} has judgements; use a run of the queries to tune on")
    lists, trials = lists_of(known.runs, list(known.qrels)), []
    with progress.task("tuning", None, "settings") as task:
        for each in variants(fusion, known.labels, grid):
            run = dict(zip(known.qrels, each.over(lists), strict=True))
            trials.append(Tried(each, mean(known.metric, known.qrels, known.relevance_level, run)))
            task.advance()
    return sorted(trials, key=lambda each: -each.worth)


def lists_of(runs: Sequence[Run], query_ids: Sequence[str]) -> list[list[RankedList]]:
    """Return the lists of each query, one per run; a list is empty if the query is missing from the run."""
    from hardneg.formats.runs import EMPTY

    return [[run.get(query_id, EMPTY) for run in runs] for query_id in query_ids]


def numbers(fusion: Fusion, labels: Sequence[str]) -> Mapping[str, Any]:
    """Return a fusion's tunable parameters by name. `weights` is a dict from run label to weight."""
    weights = {"weights": dict(zip(labels, fusion.weights, strict=True))} if fusion.method in WITH_WEIGHTS else {}
    return {**weights, **({"constant": fusion.constant} if fusion.method == "reciprocal-rank" else {})}
