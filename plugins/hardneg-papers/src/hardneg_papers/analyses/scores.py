"""How retrieval scores fall with the rank: a few high ones, then a long tail."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.plugin import (
    COLOURS,
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    RankedList,
    Runs,
    Table,
    UsageError,
    figure,
    generator,
    lines,
    plain_axes,
)

Run = Mapping[str, RankedList]

DEPTHS = (10, 100, 1000)
_POINTS = 60
_QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


class ScoreTails(Analysis):
    """Show how scores fall with the rank, as shares of the distance from the last score of the list to the best.

    Example: hardneg analyze scores --run bm25.trec.gz --run dense.trec.gz --plot scores.svg
    """

    name = "scores"
    title = "the tail of scores"
    explained = (
        "A score as its share of the way from the last one of the list, cut at the depth, to the best one; means over "
        "queries: the first rank that is below one half, and the share at half of the depth."
    )
    paper = "ANCE, Figure 3"
    asks = ("seed",)

    runs: Runs = Field(min_length=1)
    depths: Annotated[tuple[Annotated[int, Field(gt=1)], ...], Option("depth"), Field(min_length=1)] = Field(
        DEPTHS, description="Where lists are cut; by default 10, 100 and 1000."
    )
    single: int = Field(0, ge=0, description="So many single queries, drawn by the seed, beside the means.")
    queries: Annotated[tuple[Name, ...], Option("query")] = Field(
        (), description="The id of a single query; may be repeated."
    )

    def measure(self, inputs: AnalysisInputs) -> dict[str, list[dict[str, Any]]]:
        """The tails of each run."""
        runs, depths = inputs.runs("runs", self.runs), sorted(set(self.depths))
        single = single_queries(runs, self.queries or self.single, inputs.seed)
        results = {label: tails_of(run, depths, single) for label, run in runs.items()}
        for label, tails in results.items():
            if not tails:
                message = f"no query has {depths[0]} documents with different scores; give a lower depth"
                raise DataError(f"{inputs.location(f'runs.{label}')}: {message}")
        return results

    def table(self, results: Any) -> Table:
        rows = [
            [
                label,
                f"{tail['depth']:,}",
                f"{tail['half']:,}",
                f"{_halfway(tail):.3f}",
                f"{tail['score'][0]:.4g}",
                f"{tail['score'][-1]:.4g}",
                f"{tail['queries']:,}",
            ]
            for label, tails in results.items()
            for tail in tails
        ]
        return Table(("run", "depth", "below half from", "half-way", "best score", "last score", "queries"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a depth, one line a run, eight queries of ten in its band; single ones are thin."""
        depths = sorted({tail["depth"] for tails in results.values() for tail in tails})
        with figure(paths, max(1, len(depths))) as panels:
            for axes, depth in zip(panels, depths, strict=False):
                own = {label: tail for label, tails in results.items() for tail in tails if tail["depth"] == depth}
                lines(axes, {label: list(zip(tail["ranks"], tail["mean"], strict=True)) for label, tail in own.items()})
                for position, tail in enumerate(own.values()):
                    colour = COLOURS[position % len(COLOURS)]
                    axes.fill_between(tail["ranks"], tail["low"], tail["high"], color=colour, alpha=0.15, linewidth=0)
                    for shares in tail.get("single", {}).values():
                        axes.plot(tail["ranks"], shares, color=colour, alpha=0.5, linewidth=0.7)
                plain_axes(axes, f"scores of the first {depth:,}", "rank", "share of the best (the last: 0)")


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
    positions = {query_id: position for position, query_id in enumerate(run)}
    scores = [ranked.scores for ranked in run.values()]
    return score_tails(scores, depths, {name: positions[name] for name in single})


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
            name: shares for name, position in (single or {}).items() if (shares := _shares(scores[position], tail))
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


def _halfway(tail: Mapping[str, Any]) -> float:
    """The mean share at the rank next to half of the depth that is told."""
    position = min(range(len(tail["ranks"])), key=lambda i: abs(tail["ranks"][i] - tail["depth"] / 2))
    return float(tail["mean"][position])
