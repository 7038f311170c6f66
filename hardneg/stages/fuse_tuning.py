"""A fusion's numbers chosen by runs of development queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardneg.counting import counted
from hardneg.data.qrels import Qrels
from hardneg.data.runs import Run
from hardneg.errors import DataError
from hardneg.fusion.methods import WITH_WEIGHTS, Fusion
from hardneg.fusion.tuning import Grid, Tried, tried
from hardneg.progress import Progress
from hardneg.types import RankedList


@dataclass(frozen=True)
class Development:
    """What to tune by: runs in the order of `labels`, the judgements of their queries, and a metric."""

    labels: Sequence[str]
    runs: Sequence[Run]
    qrels: Qrels
    metric: str = "ndcg@10"
    relevance_level: int = 1


def tune(fusion: Fusion, known: Development, grid: Grid, progress: Progress) -> list[Tried]:
    """All that was tried, the best first; a worth is the mean of the metric over the judged queries.

    Raises:
        UsageError: the grid names what the method does not have.
    """
    from hardneg.evaluation.metrics import evaluate, means

    query_ids = list(known.qrels)
    lists = lists_of(known.runs, query_ids)
    with progress.task("tuning", None, "settings") as task:

        def worth(each: Fusion) -> float:
            fused = list(each.over(lists))
            made = Run(query_ids, [list(one.doc_ids) for one in fused], [one.scores for one in fused])
            task.advance()
            return means(evaluate(made, known.qrels, [known.metric], known.relevance_level))[known.metric]

        return tried(fusion, known.labels, dict(sorted(grid.items())), worth)


def lists_of(runs: Sequence[Run], query_ids: Sequence[str]) -> list[list[RankedList]]:
    """Each query's lists, one a run; empty where a run lacks the query."""
    empty = RankedList((), np.empty(0, np.float32))
    by_query = [
        {
            query_id: RankedList(doc_ids, scores)
            for query_id, doc_ids, scores in zip(run.query_ids, run.doc_ids, run.scores, strict=True)
        }
        for run in runs
    ]
    return [[found.get(query_id, empty) for found in by_query] for query_id in query_ids]


def check_development(known: Development, query_ids: Sequence[str]) -> None:
    """Refuses to tune on queries that are to be fused, or on runs of others than the judged ones. Raises DataError."""
    if shared := set(known.qrels).intersection(query_ids):
        told = counted(len(shared), "query is", "queries are")
        raise DataError(f"tuning: {told} among those that are fused, such as {min(shared)}; tune on other queries")
    for label, run in zip(known.labels, known.runs, strict=True):
        if not set(run.query_ids).intersection(known.qrels):
            raise DataError(f"tuning: no query of the run {label} is judged; give a run of the queries to tune on")


def to_json(found: Sequence[Tried], known: Development) -> dict[str, Any]:
    """What was tried, the best first."""
    tried = [{**numbers(each.fusion, known.labels), "worth": each.worth} for each in found]
    asked = {"metric": known.metric, "relevance_level": known.relevance_level, "queries": len(known.qrels)}
    return {**asked, "tried": tried}


def numbers(fusion: Fusion, labels: Sequence[str]) -> Mapping[str, Any]:
    """What tuning may choose of a fusion, as far as its method has it."""
    weights = dict(zip(labels, fusion.weights, strict=True))
    chosen: dict[str, Any] = {"weights": weights} if fusion.method in WITH_WEIGHTS else {}
    chosen |= {"constant": fusion.constant} if fusion.method == "reciprocal-rank" else {}
    return chosen | ({"parameter": fusion.parameter} if fusion.parameter is not None else {})
