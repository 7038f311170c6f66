"""How retrieval scores fall with the rank: a few high ones, then a long tail."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.runs import Run
from hardneg.errors import UsageError
from hardneg.seeding import generator

DEPTHS = (10, 100, 1000)
_POINTS = 60
_QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


def single_queries(runs: Mapping[str, Run], wanted: int | Sequence[str], seed: int) -> list[str]:
    """Queries to show one by one, the same of all runs: those that are named, or so many of those that all runs list.

    Raises:
        UsageError: a run does not list a query that is named.
    """
    listed = {label: {*run} for label, run in runs.items()}
    if isinstance(wanted, int):
        pool = sorted(set.intersection(*listed.values()))
        return [*generator(seed, "single queries").permutation(pool)[:wanted].tolist()]
    for name in wanted:
        if lacking := [label for label, query_ids in listed.items() if name not in query_ids]:
            raise UsageError(f"query {name!r} is not listed by {', '.join(lacking)}: name others")
    return [*wanted]


def tails_of(run: Run, depths: Sequence[int] = DEPTHS, single: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The curves of a run, as `score_tails` has them, with those of `single` queries."""
    places = {query_id: place for place, query_id in enumerate(run)}
    scores = [ranked.scores for ranked in run.values()]
    return score_tails(scores, depths, {name: places[name] for name in single})


def score_tails(
    scores: Sequence[NDArray[np.float32]], depths: Sequence[int] = DEPTHS, single: Mapping[str, int] | None = None
) -> list[dict[str, Any]]:
    """One curve a depth that some query's list reaches.

    A score counts as its share of the way from the last score of the list, cut at the depth, to the best one: the best
    is 1, the last 0, whatever the scale of the model's scores and wherever its zero is.

    Args:
        scores: float32 [n] a query, best first.
        depths: where lists are cut; those that are shorter are left out and counted, as are those of equal scores.
        single: queries to show one by one, by name: their places in `scores`.

    Returns:
        For each depth: `ranks`, from 1 and not all of them; by rank the `mean` share over queries, its quantiles
        `low` (a tenth of the queries is below), `median` and `high` (nine tenths), and the mean `score` as it is;
        `half`, the first rank whose mean share is below one half; where there are some, `single` queries' own shares.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3, with the last score for the corpus's average.
    """
    tails = [tail for depth in depths if (tail := _tail(scores, depth))]
    for tail in tails if single else ():
        tail["single"] = {
            name: shares for name, place in (single or {}).items() if (shares := _shares(scores[place], tail))
        }
    return tails


def _shares(scores: NDArray[np.float32], tail: Mapping[str, Any]) -> list[float]:
    """One query's shares at a curve's ranks; empty where its list is too short, or its scores are equal."""
    cut = scores[: tail["depth"]].astype(np.float64)
    if len(cut) < tail["depth"] or cut[0] == cut[-1]:
        return []
    shares: list[float] = ((cut - cut[-1]) / (cut[0] - cut[-1]))[np.array(tail["ranks"]) - 1].tolist()
    return shares


def _tail(scores: Sequence[NDArray[np.float32]], depth: int) -> dict[str, Any] | None:
    long = [each[:depth] for each in scores if len(each) >= depth > 1]
    table = np.array(long, np.float64).reshape(len(long), depth)
    spread = table[:, 0] - table[:, -1]
    table = table[spread > 0]
    if not len(table):
        return None
    shares = (table - table[:, -1:]) / spread[spread > 0, None]
    ranks = np.unique(np.geomspace(1, depth, _POINTS).round().astype(np.int64))
    means, at = shares.mean(0), ranks - 1
    quantiles = {name: np.quantile(shares[:, at], q, axis=0).tolist() for name, q in _QUANTILES.items()}
    return {
        "depth": depth,
        "queries": len(table),
        "left_out": {"lists that are shorter": len(scores) - len(long), "equal scores": len(long) - len(table)},
        "ranks": ranks.tolist(),
        "mean": means[at].tolist(),
        **quantiles,
        "score": table.mean(0)[at].tolist(),
        "half": int(np.argmax(means < 0.5)) + 1,
    }
