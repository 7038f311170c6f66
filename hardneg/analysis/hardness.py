"""How hard and how varied negatives are: their ranks and scores in one model's lists."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.analysis.base import Analysis, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records.types import RankedList
from hardneg.report.table import Table

LAST_RANKS = (10, 50, 200)
"""The last rank of each band; documents below the last, or not listed at all, are in a band of their own."""


class Hardness(Analysis):
    """Show how hard negatives are by one model's lists of their queries, and how varied they are.

    Example: hardneg analyze hardness --negatives mined.arrow --negatives theirs.arrow --run train.trec.gz
    """

    name = "hardness"
    title = "hardness of negatives"
    explained = (
        "Ranks are those in the model's lists, known positives left out. Above the positive: of the negatives listed "
        "for a query with a listed positive, the share that scores higher than its best one. Distinct: documents that "
        "are a negative of some query, for each 100 negatives. Relevant elsewhere: negatives that are positives of "
        "another query."
    )
    drawn = slice(3, 7)

    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(
        min_length=1, description="A negatives.arrow."
    )
    run: Annotated[Name, Reference(("run",))] = Field(description="A model's run of their queries.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Counts and shares, by the label of the negatives."""
        relevant = inputs.relevant()
        files = {label: read_negatives(inputs.negatives(f"negatives.{label}")) for label in self.negatives}
        return {label: hardness(file, inputs.stream("run"), relevant) for label, file in files.items()}

    def table(self, results: Any) -> Table:
        head = ("negatives", "queries", "a query", *_bands(), "above the positive", "distinct", "relevant elsewhere")
        rows = [
            [
                label,
                f"{each['queries']:,}",
                f"{each['negatives'] / max(each['queries'], 1):.1f}",
                *(percent(share) for share in (*each["by_rank"], each["above"], each["distinct"], each["elsewhere"])),
            ]
            for label, each in results.items()
        ]
        return Table(head, rows)


def hardness(
    negatives: NegativesFile, lists: Iterable[tuple[str, RankedList]], relevant: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Count where negatives stand in a model's lists, and how often each document is one.

    Args:
        negatives: of some queries.
        lists: the model's run of these queries, streamed.
        relevant: the positives of all queries, by query.

    Returns:
        `queries` with a negative; how many `negatives` they have; and shares of these: `by_rank`, of ranks 1 to 10, 11
        to 50, 51 to 200, and below or not listed; `above`, of those whose score is compared with a positive's, None
        where there are none; `distinct` documents; `elsewhere`, positives of another query.
    """
    rows = {query_id: row for row, query_id in enumerate(negatives.query_ids)}
    by_rank, documents, sums = np.zeros(len(LAST_RANKS) + 1, np.int64), Counter[str](), Counter[str]()
    positives = {doc_id for doc_ids in relevant.values() for doc_id in doc_ids}
    for query_id, ranked in lists:
        if (row := rows.pop(query_id, None)) is not None:
            item = negatives[row]
            own = {*item.positives, *relevant.get(query_id, ())}
            bands, scored = _standing(item.negatives, ranked, own)
            by_rank += bands
            sums.update(scored)
    for row in rows.values():  # the run lacks these
        by_rank[-1] += len(negatives[row].negatives)
    for item in negatives:
        documents.update(item.negatives)
        sums["queries"] += bool(item.negatives)
    elsewhere = sum(count for doc_id, count in documents.items() if doc_id in positives)
    count = int(by_rank.sum())
    return {
        "queries": sums["queries"],
        "negatives": count,
        "by_rank": [int(number) / max(count, 1) for number in by_rank],
        "above": sums["above"] / sums["compared"] if sums["compared"] else None,
        "distinct": len(documents) / max(count, 1),
        "elsewhere": elsewhere / max(count, 1),
    }


def _standing(doc_ids: Sequence[str], ranked: RankedList, own: set[str]) -> tuple[NDArray[np.int64], dict[str, int]]:
    """A query's negatives by band of ranks, and how many score higher than its best positive, of how many."""
    ranks = {doc_id: rank for rank, doc_id in enumerate(each for each in ranked.doc_ids if each not in own)}
    bands = np.searchsorted(LAST_RANKS, [ranks.get(doc_id, LAST_RANKS[-1]) for doc_id in doc_ids], "right")
    by_rank = np.bincount(bands, minlength=len(LAST_RANKS) + 1)
    scores = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
    best = max((scores[doc_id] for doc_id in own & scores.keys()), default=None)
    if best is None:
        return by_rank, {}
    listed = [scores[doc_id] for doc_id in doc_ids if doc_id in ranks]
    return by_rank, {"compared": len(listed), "above": sum(score > best for score in listed)}


def _bands() -> tuple[str, ...]:
    firsts = (1, *(last + 1 for last in LAST_RANKS))
    return (*(f"ranks {first}-{last}" for first, last in zip(firsts, LAST_RANKS, strict=False)), "deeper")
