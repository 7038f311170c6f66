"""Fusion weights and parameters tuned on runs of development queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from hardneg.evaluation.fusion import WITH_WEIGHTS, Fusion
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import EMPTY, Run
from hardneg.records import DataError, RankedList, UsageError, counted, suggestion
from hardneg.runtime import Progress

Grid = Mapping[str, Sequence[float]]
"""Values to try by name: of a run, whose weight they are, or `constant`."""

Mean = Callable[[str, Qrels, int, Run], float]
"""The mean of a metric over judged queries, from a relevance level up, of a run."""

_STEPS = 10


class Tried(NamedTuple):
    """A fusion, and the metric that it reached."""

    fusion: Fusion
    worth: float


@dataclass(frozen=True)
class Development:
    """The development data: runs in the order of `labels`, the judgements of their queries, and a metric."""

    labels: Sequence[str]
    runs: Sequence[Run]
    qrels: Qrels
    metric: str = "ndcg@10"
    relevance_level: int = 1


def variants(fusion: Fusion, labels: Sequence[str], grid: Grid) -> list[Fusion]:
    """Return every combination of the grid's values by name, the others as in `fusion`.

    labels: the runs, in the order of the weights. Without a grid, all weights in tenths that sum to 1.
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


def tune(
    fusion: Fusion, known: Development, grid: Grid, fused: Sequence[str], mean: Mean, progress: Progress
) -> list[Tried]:
    """Return all trials, the best first, then the earlier; fused: the queries that are fused.

    Raises:
        UsageError: the grid names what the method does not have.
        DataError: a query that is fused is judged, or none of a run.
    """
    check_grid(fusion.method, known.labels, grid)
    if shared := set(known.qrels).intersection(fused):
        overlap = counted(len(shared), "query is", "queries are")
        raise DataError(f"tuning: {overlap} among those that are fused, such as {min(shared)}; tune on other queries")
    for label, run in zip(known.labels, known.runs, strict=True):
        if not known.qrels.keys() & run.keys():
            raise DataError(f"tuning: no query of the run {label} is judged; give a run of the queries to tune on")
    lists, trials = lists_of(known.runs, list(known.qrels)), []
    with progress.task("tuning", None, "settings") as task:
        for each in variants(fusion, known.labels, grid):
            run = dict(zip(known.qrels, each.over(lists), strict=True))
            trials.append(Tried(each, mean(known.metric, known.qrels, known.relevance_level, run)))
            task.advance()
    return sorted(trials, key=lambda each: -each.worth)


def lists_of(runs: Sequence[Run], query_ids: Sequence[str]) -> list[list[RankedList]]:
    """Return each query's lists, one per run; empty where a run lacks the query."""
    return [[run.get(query_id, EMPTY) for run in runs] for query_id in query_ids]


def to_json(trials: Sequence[Tried], known: Development) -> dict[str, Any]:
    """Return the trials for JSON, the best first."""
    tried = [{**numbers(each.fusion, known.labels), "worth": each.worth} for each in trials]
    settings = {"metric": known.metric, "relevance_level": known.relevance_level, "queries": len(known.qrels)}
    return {**settings, "tried": tried}


def numbers(fusion: Fusion, labels: Sequence[str]) -> Mapping[str, Any]:
    """Return the tunable numbers of a fusion that its method has."""
    weights = {"weights": dict(zip(labels, fusion.weights, strict=True))} if fusion.method in WITH_WEIGHTS else {}
    return {**weights, **({"constant": fusion.constant} if fusion.method == "reciprocal-rank" else {})}
