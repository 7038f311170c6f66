"""Ranks of labelled positives in a run, as evidence for how to mine."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, RankedList, Table, errors, fields


class PositiveRanks(Analysis):
    """Show where a run ranks the labelled positives, and how many of the top documents score higher.

    Example: hardneg analyze positive-ranks --run dev.trec.gz --qrels dev.tsv
    """

    name = "positive-ranks"
    version = 2
    title = "where positives rank"
    explained = (
        "Ranks are of each query's labelled positive with the highest score, after its other positives and copies are "
        "removed from the list. Above it: the share of the first documents with a higher score."
    )
    asks = ("qrels",)
    drawn = slice(2, None)

    run: Annotated[fields.Name, fields.Reference(("run",))] = Field(description="The TREC run to mine negatives from.")
    depth: int = Field(10, gt=0, description="Number of top documents to compare with the positive.")
    split: Annotated[fields.Name, fields.Option("-")] = "dev"

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return the ranks of positives, ascending, and mean shares, over queries with a positive in the corpus.

        Raises:
            DataError: no query has a labelled positive in the corpus.
        """
        known, ranks, listed, shares, longest = known_positives(inputs, self.split), [], [], [], 0
        for (query_id, positives), ranking in zip(known.items(), inputs.lists("run", list(known)), strict=True):
            aside = frozenset(inputs.copies(positives)).union(inputs.relevant()[query_id])
            others = ranking.scores[[row for row, doc_id in enumerate(ranking.doc_ids) if doc_id not in aside]]
            best = np.nan_to_num(scores_of(positives, ranking), nan=-np.inf).max()
            above, first = int((others > best).sum()), min(len(others), self.depth)
            ranks.append(above + 1)
            listed.append(best > -np.inf)
            shares += [min(above, first) / first] if first else []
            longest = max(longest, len(others))
        if not ranks:
            raise errors.DataError(f"{inputs.location('run')}: no query has a labelled positive in the corpus")
        within = {cut: float((np.array(listed) & (np.array(ranks) <= cut)).mean()) for cut in {1, self.depth, 100}}
        return {
            "split": self.split,
            "queries": len(ranks),
            "listed": longest,
            "depth": self.depth,
            "median_rank": float(np.median(ranks)),
            "within": {str(cut): within[cut] for cut in sorted(within)},
            "above": float(np.mean(shares)) if shares else None,
            "ranks": sorted(ranks),
        }

    def table(self, results: Any) -> Table:
        heads = ("queries", "median rank", *(f"in the first {cut}" for cut in results["within"]))
        shares = map(percent, (*results["within"].values(), results["above"]))
        cells = [f"{results['queries']:,}", rank_in_words(results), *shares]
        return Table((*heads, f"above it, of {results['depth']}"), [cells])


def rank_in_words(results: Any) -> str:
    """Return the median rank as text, or `below N` if it is beyond the longest list, which has N documents."""
    beyond = results["median_rank"] > results["listed"]
    return f"below {results['listed']:,}" if beyond else f"{results['median_rank']:g}"


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal place, or a dash for None."""
    return "–" if share is None else f"{share:.1%}"


def scores_of(doc_ids: Sequence[str], ranked: RankedList) -> NDArray[np.float32]:
    """Return the score of each of n documents in a ranked list: float32 [n], nan for unlisted documents."""
    known = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)


def known_positives(inputs: AnalysisInputs, split: str) -> dict[str, list[str]]:
    """Return positives by query of a split, only those in the corpus if there is one; omit queries without any."""
    known = inputs.relevant()
    query_ids = [query_id for query_id in inputs.query_ids("run", split) if query_id in known]
    there = frozenset(inputs.copies([doc_id for query_id in query_ids for doc_id in known[query_id]]))
    kept = {query_id: [doc_id for doc_id in known[query_id] if doc_id in there] for query_id in query_ids}
    return {query_id: doc_ids for query_id, doc_ids in kept.items() if doc_ids}
