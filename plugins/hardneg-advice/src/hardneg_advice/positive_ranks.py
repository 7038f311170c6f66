"""Where a model ranks the known positives, and how near to them the top of its lists is: what mining has to go by."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, DataError, Name, Option, RankedList, Reference, Table, figures
from hardneg_advice.planted import ONE_VECTOR, known_positives, percent, scores_of

_COMPARED = 10


@dataclass(frozen=True, slots=True)
class PositiveStanding:
    """One query's best positive in its list.

    positive: the document. score: its score, -inf where the list lacks it. others: the first of the list that are
    neither known positives nor copies of one. above: how many such score higher in the whole list, of `listed`.
    """

    positive: str
    score: float
    others: Sequence[str]
    above: int
    listed: int


def standing(ranking: RankedList, known: Sequence[str], aside: frozenset[str], depth: int) -> PositiveStanding:
    """Where the best of the known positives stands among the documents that are not `aside`."""
    scores = np.nan_to_num(scores_of(known, ranking), nan=-np.inf)
    best = int(scores.argmax())
    rows = [row for row, doc_id in enumerate(ranking.doc_ids) if doc_id not in aside]
    above = int((ranking.scores[rows] > scores[best]).sum())
    return PositiveStanding(
        known[best], float(scores[best]), [ranking.doc_ids[row] for row in rows[:depth]], above, len(rows)
    )


class PositiveRanks(Analysis):
    """Show where a run ranks the known positives, and how near to them the top of its lists is.

    Example: hardneg analyze positive-ranks --run dev.trec.gz --qrels dev.tsv
    """

    name = "positive-ranks"
    title = "where positives rank"
    explained = (
        "Of each query the known positive with the highest score; other known positives and copies are left out of the "
        "list. Above it: of the first documents, the share with a higher score. Nearer to it: the share whose score "
        "with the positive is higher than the query's. Siblings: other documents of its group."
    )
    asks = ("qrels",)

    run: Annotated[Name, Reference(("run",))] = Field(description="The TREC run that negatives are to be taken from.")
    index: Annotated[Name | None, Reference(("index",), ONE_VECTOR)] = Field(
        None, description="The index that was searched: for what is near to the positives."
    )
    model: Annotated[Name | None, Reference(("model",)), Option(metavar="NAME")] = Field(
        None, description="The model of that index."
    )
    depth: int = Field(_COMPARED, gt=0, description="How many documents of each list to compare with the positive.")
    split: Annotated[Name, Option("-")] = "dev"

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Ranks, shares and counts as means over queries with a known positive; `ranks` has every rank, ascending.

        Raises:
            DataError: no query has a known positive.
        """
        known, standings = known_positives(inputs, self.split), []
        for (query_id, positives), ranking in zip(known.items(), inputs.lists("run", list(known)), strict=True):
            aside = frozenset(inputs.copies(positives)).union(inputs.relevant()[query_id])
            standings.append(standing(ranking, positives, aside, self.depth))
        if not standings:
            raise DataError(f"{inputs.location('run')}: no query has a known positive that is in the corpus")
        ranks = np.array([each.above + 1 for each in standings])
        listed = np.array([each.score > -np.inf for each in standings])
        first = [min(each.above, len(each.others)) / len(each.others) for each in standings if each.others]
        return {
            "split": self.split,
            "queries": len(standings),
            "listed": max(each.listed for each in standings),
            "depth": self.depth,
            "median_rank": float(np.median(ranks)),
            "within": {str(cut): float((listed & (ranks <= cut)).mean()) for cut in sorted({1, self.depth, 100})},
            "above": float(np.mean(first)) if first else None,
            "nearer": None if self.index is None else self._nearer(inputs, standings),
            "siblings": siblings_of(inputs, standings),
            "ranks": np.sort(ranks).tolist(),
        }

    def _nearer(self, inputs: AnalysisInputs, standings: Sequence[PositiveStanding]) -> float | None:
        """Of the first documents, the share whose inner product with the positive is above the query's."""
        system, shares = inputs.system("index", "model"), []
        for each in standings:
            if each.others:
                vectors = system.searcher.vectors(system.rows([each.positive, *each.others]))
                shares.append(float((vectors[1:] @ vectors[0] > each.score).mean()))
        return float(np.mean(shares)) if shares else None

    def table(self, results: Any) -> Table:
        cuts, depth = results["within"], results["depth"]
        heads = ("queries", "median rank", *(f"in the first {cut}" for cut in cuts))
        siblings = "–" if results["siblings"] is None else f"{results['siblings']:.1f}"
        cells = [f"{results['queries']:,}", rank_in_words(results), *map(percent, cuts.values())]
        near = [percent(results["above"]), percent(results["nearer"]), siblings]
        return Table((*heads, f"above it, of {depth}", f"nearer to it, of {depth}", "siblings"), [[*cells, *near]])

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """The share of queries whose positive is in the first documents, by how many these are."""
        ranks = np.array(results["ranks"])
        points = [
            (float(rank), float((ranks <= rank).mean())) for rank in np.unique(ranks) if rank <= results["listed"]
        ]
        with figures.figure(paths, 1) as (axes,):
            figures.lines(axes, {"positives": points})
            axes.set_xscale("log")
            figures.plain_axes(axes, self.title, "rank", "queries")


def rank_in_words(results: Any) -> str:
    """The median rank, which may be below the lists."""
    beyond = results["median_rank"] > results["listed"]
    return f"below {results['listed']:,}" if beyond else f"{results['median_rank']:g}"


def siblings_of(inputs: AnalysisInputs, standings: Sequence[PositiveStanding]) -> float | None:
    """Other documents of the positive's group, in the mean over positives that have one; None without groups."""
    groups = inputs.groups()
    sizes = Counter(groups.values())
    counts = [sizes[groups[each.positive]] - 1 for each in standings if each.positive in groups]
    return sum(counts) / len(counts) if counts else None
