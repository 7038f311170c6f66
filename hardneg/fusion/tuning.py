"""Fusion weights and parameters tuned on runs of development queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import EMPTY, Run
from hardneg.fusion.methods import WITH_WEIGHTS, Fusion
from hardneg.records.errors import DataError, UsageError
from hardneg.records.types import RankedList
from hardneg.records.wording import counted, suggestion
from hardneg.runtime.progress import Progress

Grid = Mapping[str, Sequence[float]]
"""Values to try by name: of a run, whose weight they are, or `constant`."""

_STEPS = 10


@dataclass(frozen=True)
class Tried:
    """A fusion, and the metric that it reached."""

    fusion: Fusion
    worth: float


def tried(fusion: Fusion, labels: Sequence[str], grid: Grid, worth: Callable[[Fusion], float]) -> list[Tried]:
    """Try every combination of the grid's values, the others as in `fusion`; return the best first, then the earlier.

    labels: the runs, in the order of the weights. Without a grid, all weights in tenths that sum to 1 are tried.

    Raises:
        UsageError: the grid names what the method does not have, or there is nothing to try.
    """
    trials = [Tried(each, worth(each)) for each in variants(fusion, labels, grid)]
    return sorted(trials, key=lambda each: -each.worth)


def variants(fusion: Fusion, labels: Sequence[str], grid: Grid) -> Iterator[Fusion]:
    """Return the fusions that `tried` evaluates, in its order; raises as it does."""
    check_grid(fusion.method, labels, grid)
    if not grid:
        for tenths in product(range(_STEPS + 1), repeat=len(labels)):
            if sum(tenths) == _STEPS:
                yield replace(fusion, weights=tuple(tenth / _STEPS for tenth in tenths))
    else:
        for values in product(*grid.values()):
            trial = dict(zip(grid, values, strict=True))
            pairs = zip(labels, fusion.weights, strict=True)
            weights = tuple(trial.get(label, weight) for label, weight in pairs)
            yield replace(fusion, weights=weights, constant=int(trial.get("constant", fusion.constant)))


def check_grid(method: str, labels: Sequence[str], grid: Grid) -> None:
    """Refuse a grid that does not fit, before any work. Raises UsageError."""
    if method not in WITH_WEIGHTS:
        raise UsageError(f"{method} has no weights: there is nothing to tune")
    known = (*labels, *(("constant",) if method == "reciprocal-rank" else ()))
    for name, values in grid.items():
        if name not in known:
            raise UsageError(f"grid: {method} has no {name!r}{suggestion(name, known)}; it has {', '.join(known)}")
        if not values:
            raise UsageError(f"grid: {name} has no values to try")
        if name == "constant" and any(value < 0 or value != int(value) for value in values):
            raise UsageError("grid: constant takes whole numbers from 0 on")


@dataclass(frozen=True)
class Development:
    """The development data: runs in the order of `labels`, the judgements of their queries, and a metric."""

    labels: Sequence[str]
    runs: Sequence[Run]
    qrels: Qrels
    metric: str = "ndcg@10"
    relevance_level: int = 1


def tune(
    fusion: Fusion, known: Development, grid: Grid, mean: Callable[[Run], float], progress: Progress
) -> list[Tried]:
    """Return all trials, the best first; `mean` returns the mean of the metric over the judged queries.

    Raises:
        UsageError: the grid names what the method does not have.
    """
    query_ids = list(known.qrels)
    lists = lists_of(known.runs, query_ids)
    with progress.task("tuning", None, "settings") as task:

        def worth(each: Fusion) -> float:
            run = dict(zip(query_ids, each.over(lists), strict=True))
            task.advance()
            return mean(run)

        return tried(fusion, known.labels, dict(sorted(grid.items())), worth)


def lists_of(runs: Sequence[Run], query_ids: Sequence[str]) -> list[list[RankedList]]:
    """Return each query's lists, one per run; empty where a run lacks the query."""
    return [[run.get(query_id, EMPTY) for run in runs] for query_id in query_ids]


def check_development(known: Development, query_ids: Sequence[str]) -> None:
    """Refuse to tune on the queries that are fused, or on runs without judged queries. Raises DataError."""
    if shared := set(known.qrels).intersection(query_ids):
        overlap = counted(len(shared), "query is", "queries are")
        raise DataError(f"tuning: {overlap} among those that are fused, such as {min(shared)}; tune on other queries")
    for label, run in zip(known.labels, known.runs, strict=True):
        if not known.qrels.keys() & run.keys():
            raise DataError(f"tuning: no query of the run {label} is judged; give a run of the queries to tune on")


def to_json(trials: Sequence[Tried], known: Development) -> dict[str, Any]:
    """Return the trials for JSON, the best first."""
    tried = [{**numbers(each.fusion, known.labels), "worth": each.worth} for each in trials]
    settings = {"metric": known.metric, "relevance_level": known.relevance_level, "queries": len(known.qrels)}
    return {**settings, "tried": tried}


def numbers(fusion: Fusion, labels: Sequence[str]) -> Mapping[str, Any]:
    """Return the tunable numbers of a fusion that its method has."""
    weights = {"weights": dict(zip(labels, fusion.weights, strict=True))} if fusion.method in WITH_WEIGHTS else {}
    return {**weights, **({"constant": fusion.constant} if fusion.method == "reciprocal-rank" else {})}
