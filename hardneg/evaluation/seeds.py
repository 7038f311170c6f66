"""Scores of one system that was trained with several seeds."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from hardneg.evaluation.metrics import Scores
from hardneg.records.errors import UsageError


def averaged(scores: Sequence[Scores]) -> Scores:
    """The mean over seeds of each query's score, by metric; one is as it is.

    Raises:
        UsageError: they are not of the same queries.
    """
    if len(scores) == 1:
        return scores[0]
    for name, by_query in scores[0].items():
        if any(other[name].keys() != by_query.keys() for other in scores):
            raise UsageError("the runs of a system with several seeds are of different queries: search the same split")
    return {
        name: {query_id: fmean(each[name][query_id] for each in scores) for query_id in by_query}
        for name, by_query in scores[0].items()
    }


def by_system(
    paths: Mapping[str, tuple[str, int | None]], scores: Mapping[str, Scores]
) -> dict[str, dict[int, Scores]]:
    """The scores of each system with several seeds, by seed; paths: the system and the seed of each of `scores`."""
    systems: dict[str, dict[int, Scores]] = {}
    for path, run_scores in scores.items():
        label, seed = paths[path]
        if seed is not None:
            systems.setdefault(label, {})[seed] = run_scores
    return systems
