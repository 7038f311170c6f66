"""Systems ranked over tasks: tasks are what is drawn at random, and a system's score of one is its mean over queries.

The interval of a rank has all ranks that the differences between systems leave open: of k systems, one that a are
better than and that is better than b has a rank from 1 + a to k - b. Differences count where the paired t-test over
tasks gives a p below .05 after Holm's correction over all pairs, so that all intervals together hold with 95 %. Ranks
in the draws of a bootstrap would not: they are too sure where systems are equal. Nor has its p, of a few tasks, the
digits that a correction over many pairs needs. Intervals of means are Student's. Source: Mogstad, Romano, Shaikh and
Wilhelm (2024), "Inference for ranks with applications to mobility across neighbourhoods and academic achievement across
countries", Review of Economic Studies 91.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from hardneg.evaluation.intervals import Interval, mean_interval
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.metrics_json import Measured, to_json
from hardneg.evaluation.significance import Design, compare_all, holm, paired_t_test

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Rank:
    """One system by one metric: its mean over tasks with Student's 95 % interval, and its rank.

    best, worst: the ends of the rank's interval.
    """

    system: str
    metric: str
    mean: float
    interval: Interval | None
    rank: int
    best: int
    worst: int


@dataclass(frozen=True, slots=True)
class OverTasks:
    """Systems compared over tasks: in `measured` tasks have the place of queries."""

    measured: Measured
    ranks: Sequence[Rank]

    def to_json(self) -> dict[str, Any]:
        """As a metrics file has it, with `per_task` for `per_query`, and `ranks`."""
        content = to_json(self.measured)
        per_task = content.pop("per_query")
        return {**content, "ranks": [asdict(each) for each in self.ranks], "per_task": per_task}


def over_tasks(splits: Mapping[str, Measured]) -> OverTasks | None:
    """Compare systems over tasks; None where there are fewer than two tasks or two systems.

    splits: what is measured by the path of a split, which begins with its task's name; a task of several counts once.
    """
    by_task: dict[str, list[Measured]] = {}
    for path, each in splits.items():
        by_task.setdefault(path.partition("/")[0], []).append(each)
    first = next(iter(splits.values()), None)
    if first is None or len(by_task) < 2 or len(first.results) < 2:
        return None
    scores: dict[str, Scores] = {
        system: {
            metric: {
                task: fmean(means(each.results[system])[metric] for each in parts) for task, parts in by_task.items()
            }
            for metric in first.results[system]
        }
        for system in first.results
    }
    baselines = list(dict.fromkeys(test.baseline for test in first.comparisons))
    level, margin = first.significance_level, first.equivalence_margin
    comparisons = compare_all(scores, baselines, design=Design(margin))
    measured = Measured(scores, comparisons, significance_level=level, equivalence_margin=margin)
    return OverTasks(measured, ranks(scores))


def ranks(scores: Mapping[str, Scores]) -> list[Rank]:
    """Each system's rank by each metric, the best first; scores: by system, metric and task, all of the same tasks."""
    return [
        rank
        for metric in dict.fromkeys(name for by_metric in scores.values() for name in by_metric)
        for rank in _ranks({system: each[metric] for system, each in scores.items()}, metric)
    ]


def _ranks(scores: Mapping[str, Mapping[str, float]], metric: str) -> list[Rank]:
    tasks = list(next(iter(scores.values())))
    tables = {system: np.array([by_task[task] for task in tasks], np.float64) for system, by_task in scores.items()}
    averages = {system: float(table.mean()) for system, table in tables.items()}
    pairs = list(combinations(sorted(averages, key=lambda system: -averages[system]), 2))
    p_values = holm([paired_t_test(tables[better] - tables[other]) for better, other in pairs])
    apart = [pair for pair, p in zip(pairs, p_values, strict=True) if p < _LEVEL]
    return [
        Rank(
            system,
            metric,
            averages[system],
            mean_interval(tables[system]),
            rank=1 + sum(other > averages[system] for other in averages.values()),
            best=1 + sum(other == system for _, other in apart),
            worst=len(averages) - sum(better == system for better, _ in apart),
        )
        for system in sorted(averages, key=lambda system: -averages[system])
    ]
