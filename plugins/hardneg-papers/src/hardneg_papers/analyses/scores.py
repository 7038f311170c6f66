"""How retrieval scores fall with the rank: a few high ones, then a long tail."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, RankedList, Runs, Table, errors, fields, figures, seeding

_POINTS = 60
_QUANTILES = {"low": 0.1, "high": 0.9}


class ScoreTails(Analysis):
    """Show how scores fall with the rank, as shares of the distance from the last score of the list to the best.

    Example: hardneg analyze scores --run bm25.trec.gz --run dense.trec.gz --plot scores.svg
    """

    name, version = "scores", 2
    title = "the tail of scores"
    explained = (
        "A score as its share of the way from the last one of the list, cut at the depth, to the best one; means over "
        "queries: the first rank that is below one half, and the share at half of the depth."
    )
    paper = "ANCE, Figure 3"
    asks = ("seed",)

    runs: Runs = Field(min_length=1)
    depths: Annotated[tuple[Annotated[int, Field(gt=1)], ...], fields.Option("depth"), Field(min_length=1)] = Field(
        (10, 100, 1000), description="Where lists are cut; by default 10, 100 and 1000."
    )
    single: int = Field(
        0, ge=0, description="So many single queries, drawn by the seed of those in all runs, beside the means."
    )

    def measure(self, inputs: AnalysisInputs) -> dict[str, list[dict[str, Any]]]:
        """The tails of each run."""
        runs, depths = inputs.runs("runs", self.runs), sorted(set(self.depths))
        pool = sorted(set.intersection(*({*run} for run in runs.values())))
        single = seeding.generator(inputs.seed, "single queries").permutation(pool)[: self.single].tolist()
        results = {label: score_tails(run, depths, single) for label, run in runs.items()}
        for label, tails in results.items():
            if not tails:
                message = f"no query has {depths[0]} documents with different scores; give a lower depth"
                raise errors.DataError(f"{inputs.location(f'runs.{label}')}: {message}")
        return results

    def table(self, results: Any) -> Table:
        rows = []
        for label, tails in results.items():
            for tail in tails:
                halfway = min(
                    zip(tail["ranks"], tail["mean"], strict=True), key=lambda at: abs(at[0] - tail["depth"] / 2)
                )
                scores = [f"{score:.4g}" for score in (tail["score"][0], tail["score"][-1])]
                cells = [
                    f"{tail['depth']:,}",
                    f"{tail['half']:,}",
                    f"{halfway[1]:.3f}",
                    *scores,
                    f"{tail['queries']:,}",
                ]
                rows.append([label, *cells])
        return Table(("run", "depth", "below half from", "half-way", "best score", "last score", "queries"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a depth, one line a run, eight queries of ten in its band; single ones are thin."""
        depths = sorted({tail["depth"] for tails in results.values() for tail in tails})
        with figures.figure(paths, max(1, len(depths))) as panels:
            for axes, depth in zip(panels, depths, strict=False):
                own = {label: tail for label, tails in results.items() for tail in tails if tail["depth"] == depth}
                figures.lines(
                    axes, {label: list(zip(tail["ranks"], tail["mean"], strict=True)) for label, tail in own.items()}
                )
                for position, tail in enumerate(own.values()):
                    colour = figures.COLOURS[position % len(figures.COLOURS)]
                    axes.fill_between(tail["ranks"], tail["low"], tail["high"], color=colour, alpha=0.15, linewidth=0)
                    for shares in tail.get("single", {}).values():
                        axes.plot(tail["ranks"], shares, color=colour, alpha=0.5, linewidth=0.7)
                figures.plain_axes(axes, f"scores of the first {depth:,}", "rank", "share of the best (the last: 0)")


def score_tails(
    run: Mapping[str, RankedList], depths: Sequence[int], single: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One curve a depth that some query's list reaches.

    A score counts as its share of the way from the last score of the list, cut at the depth, to the best one: the best
    is 1, the last 0, whatever the scale of the model's scores and wherever its zero is. Lists that are shorter are left
    out and counted, as are those of equal scores.

    Returns:
        For each depth: `ranks`, from 1 and not all of them; by rank the `mean` share over queries, its quantiles
        `low` (a tenth of the queries is below) and `high` (nine tenths), and the mean `score` as it is;
        `half`, the first rank whose mean share is below one half; where there are some, the shares of `single` queries.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3, with the last score for the corpus's average.
    """
    tails = []
    for depth in depths:
        cut = {name: each.scores[:depth].astype(np.float64) for name, each in run.items() if len(each.scores) >= depth}
        table: dict[str, NDArray[np.float64]] = {name: each for name, each in cut.items() if each[0] != each[-1]}
        if not table:
            continue
        scores = np.stack([*table.values()])
        by_query = (scores - scores[:, -1:]) / (scores[:, :1] - scores[:, -1:])
        ranks = np.unique(np.geomspace(1, depth, _POINTS).round().astype(np.int64))
        mean, shares = by_query.mean(0), by_query[:, ranks - 1]
        tail = {
            "depth": depth,
            "queries": len(table),
            "left_out": {"lists that are shorter": len(run) - len(cut), "equal scores": len(cut) - len(table)},
            "ranks": ranks.tolist(),
            "mean": mean[ranks - 1].tolist(),
            **{name: np.quantile(shares, q, axis=0).tolist() for name, q in _QUANTILES.items()},
            "score": scores.mean(0)[ranks - 1].tolist(),
            "half": int(np.argmax(mean < 0.5)) + 1,
        }
        if single:
            own = dict(zip(table, shares.tolist(), strict=True))
            tail["single"] = {name: own[name] for name in single if name in own}
        tails.append(tail)
    return tails
