"""Hardness and variety of negatives, measured by their ranks and scores in one model's ranked lists."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, RankedList, Table, fields, negatives_files

LAST_RANKS = (10, 50, 200)
"""The last rank of each band; deeper or unlisted documents form another band."""
_BANDS = ("ranks 1-10", "ranks 11-50", "ranks 51-200", "deeper")


class Hardness(Analysis):
    """Show how hard negatives are in one model's ranked lists, and how varied they are.

    Example: hardneg analyze hardness --negatives mined.arrow --negatives theirs.arrow --run train.trec.gz
    """

    name = "hardness"
    title = "hardness of negatives"
    explained = (
        "Ranks are counted in the model's lists without labelled positives. Above the positive: the share of listed "
        "negatives that score higher than the best positive, over queries with a listed positive. Distinct: different "
        "documents, as a share of the negatives. Relevant elsewhere: negatives that are positives of another query."
    )
    drawn = slice(3, 7)

    negatives: Annotated[dict[fields.Name, fields.Name], fields.Reference(("negatives",))] = Field(
        min_length=1, description="A file of negatives, negatives.arrow."
    )
    run: Annotated[fields.Name, fields.Reference(("run",))] = Field(description="A model's run for the same queries.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return the result of `hardness` for each file of negatives, by label."""
        files = {label: inputs.negatives(f"negatives.{label}") for label in self.negatives}
        return {
            label: hardness(negatives_files.read_negatives(path), inputs.stream("run"), inputs.relevant())
            for label, path in files.items()
        }

    def table(self, results: Any) -> Table:
        head = ("negatives", "queries", "per query", *_BANDS, "above the positive", "distinct", "relevant elsewhere")
        rows = []
        for label, each in results.items():
            shares = (*each["by_rank"], each["above"], each["distinct"], each["elsewhere"])
            counts = [f"{each['queries']:,}", f"{each['negatives'] / max(each['queries'], 1):.1f}"]
            rows.append([label, *counts, *("–" if share is None else f"{share:.1%}" for share in shares)])
        return Table(head, rows)


def hardness(
    negatives: "negatives_files.NegativesFile",
    lists: Iterable[tuple[str, RankedList]],
    relevant: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Measure how hard negatives are, by their ranks in one model's lists, and how varied they are.

    Args:
        negatives: the negatives, by query.
        lists: the model's run for these queries, streamed as pairs of a query id and its list.
        relevant: the positives of all queries, by query.

    Returns:
        Counts: `queries` with a negative, and their `negatives`. Shares of the negatives: `by_rank`, at ranks 1 to 10,
        11 to 50, 51 to 200, and deeper or unlisted; `distinct`, different documents; `elsewhere`, positives of any
        query. `above`: of the negatives in a list with a positive, the share that scores above the best one, or None.
    """
    documents = Counter(chain.from_iterable(item.negatives for item in negatives))
    bands, compared, above = np.zeros(len(_BANDS), np.int64), 0, 0
    unlisted = {query_id: row for row, query_id in enumerate(negatives.query_ids)}
    for query_id, ranked in lists:
        if (row := unlisted.pop(query_id, None)) is None:
            continue
        item = negatives[row]
        own = {*item.positives, *relevant.get(query_id, ())}
        ranks = {doc_id: rank for rank, doc_id in enumerate(each for each in ranked.doc_ids if each not in own)}
        places = [ranks.get(doc_id, LAST_RANKS[-1]) for doc_id in item.negatives]
        bands += np.bincount(np.searchsorted(LAST_RANKS, places, "right"), minlength=len(_BANDS))
        scores = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
        if listed := own & scores.keys():
            best = max(scores[doc_id] for doc_id in listed)
            theirs = [scores[doc_id] for doc_id in item.negatives if doc_id in ranks]
            compared, above = compared + len(theirs), above + sum(score > best for score in theirs)
    bands[-1] += sum(len(negatives[row].negatives) for row in unlisted.values())
    positives, count = set(chain.from_iterable(relevant.values())), max(documents.total(), 1)
    return {
        "queries": int((negatives.counts > 0).sum()),
        "negatives": documents.total(),
        "by_rank": [int(number) / count for number in bands],
        "above": above / compared if compared else None,
        "distinct": len(documents) / count,
        "elsewhere": sum(number for doc_id, number in documents.items() if doc_id in positives) / count,
    }
