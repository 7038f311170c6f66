"""Analysis `p-mrr`: rank changes of documents that are less relevant under a changed instruction."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, RankedList, Runs, Table, errors
from hardneg_instructions.followir import CHANGED, ORIGINAL


class PMrr(Analysis):
    """Measure whether runs follow a changed instruction, as p-MRR from -1 (the opposite) to 1; 0 means ignored.

    Only documents that are less relevant under the changed instruction than under the original one are measured.

    Source: Weller et al., FollowIR (2024), section 4.

    Example: hardneg analyze p-mrr --qrels qrels.txt --run both.trec.gz
    """

    name = "p-mrr"
    drawn = slice(1, 2)
    title = "p-MRR"
    asks = ("qrels",)

    runs: Runs = Field(min_length=1, description="Runs of the queries under both instructions.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return each run's p-MRR, overall and by query, with counts. Raises DataError if no query can be measured."""
        less, more = _judged(inputs.qrels())
        if not less:
            ends = f"id suffix {CHANGED} than with {ORIGINAL}"
            raise errors.DataError(f"p-mrr: the qrels have no document that is less relevant to a query with {ends}")
        measured = {}
        for label in self.runs:
            run = dict(inputs.run(f"runs.{label}"))
            both = [query for query in less if {query + ORIGINAL, query + CHANGED} <= run.keys()]
            values = {query: _p_mrr(run, query, less[query]) for query in both}
            if not values:
                raise errors.DataError(
                    f"p-mrr: {inputs.location(f'runs.{label}')} has no query under both instructions; search both"
                )
            measured[label] = {
                "p-MRR": sum(values.values()) / len(values),
                "documents": sum(len(less[query]) for query in values),
                "by_query": values,
            }
        return {"queries": len(less), "more relevant": more, "runs": measured}

    def table(self, results: Any) -> Table:
        """Return a table with one row per run."""
        rows = []
        for label, row in results["runs"].items():
            queries = f"{len(row['by_query']):,} of {results['queries']:,}"
            rows.append([label, f"{row['p-MRR']:+.4f}", queries, f"{row['documents']:,}"])
        return Table(("run", "p-MRR", "queries", "documents"), rows)

    def explain(self, results: Any) -> str:
        """Return a paragraph that explains the values and counts ignored documents."""
        more = results["more relevant"]
        return (
            "The rank change of documents that the changed instruction makes less relevant, averaged per query and "
            "then over queries: above 0 if they fall, below 0 if they rise, else 0. The papers multiply it by 100."
            + (f" It ignores {more} documents that became more relevant." if more else "")
        )


def _judged(qrels: Mapping[str, Mapping[str, int]]) -> tuple[dict[str, list[str]], int]:
    """Return, by query, documents less relevant under the changed instruction, and the number of more relevant ones."""
    less, more = {}, 0
    for query_id, original in qrels.items():
        query = query_id.removesuffix(ORIGINAL)
        changed = qrels.get(query + CHANGED, {}) if query_id.endswith(ORIGINAL) else {}
        doc_ids = [doc_id for doc_id in original if changed.get(doc_id, original[doc_id]) < original[doc_id]]
        more += sum(changed[doc_id] > original.get(doc_id, changed[doc_id]) for doc_id in changed)
        if doc_ids:
            less[query] = doc_ids
    return less, more


def _p_mrr(run: Mapping[str, RankedList], query: str, doc_ids: Sequence[str]) -> float:
    lists = (run[query + ending].doc_ids for ending in (ORIGINAL, CHANGED))
    ranks = [{doc_id: rank for rank, doc_id in enumerate(ranked, 1)} for ranked in lists]
    original, changed = ([of.get(doc_id, len(of) + 1) for doc_id in doc_ids] for of in ranks)
    return sum(map(rank_change, original, changed)) / len(doc_ids)


def rank_change(original: int, changed: int) -> float:
    """Return p-MRR for one document, between -1 and 1: above 0 if its rank falls, below 0 if it rises.

    original, changed: its ranks, from 1, under the two instructions; an unlisted document has the rank after the last.
    With MRR = 1 / rank, the value is MRR_og / MRR_new - 1 if the document rises, else 1 - MRR_new / MRR_og.

    Source: Weller et al., FollowIR (2024), p-MRR.
    """
    return changed / original - 1 if original > changed else 1 - original / changed
