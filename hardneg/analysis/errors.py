"""Pairwise errors of indexes and runs: the negatives above each positive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardneg.analysis.base import Analysis, Encoders, Indexes, Option, Runs, unnamed_encoders
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.evaluation.pairwise_errors import CUT, Bucket, PairwiseErrors, by_query, errors_in_run, to_json
from hardneg.records.errors import UsageError
from hardneg.report.figure import COLOURS, figure, plain_axes
from hardneg.report.table import Table

if TYPE_CHECKING:
    from hardneg.indexes.exact_ranks import Pass

Rows = NDArray[np.int64]

_NAMED = ("indexes", "queries", "models", "runs")


class Errors(Analysis):
    """Count the negatives above each positive: in the whole corpus (an index), and within the top K.

    Example: hardneg analyze errors --qrels qrels.txt --index FOLDER --queries queries.jsonl --model NAME
    """

    name = "errors"
    title = "pairwise errors"
    explained = (
        "Negatives above a positive, summed over a query's positives: in the whole corpus, and within the top K "
        "negatives; means over queries. Copies of positives are neither positives nor negatives. "
        "≥: some positives are below what the run lists."
    )
    paper = "STAR/ADORE, Table 1 and Figure 3"
    asks = ("qrels", "queries?", "relevance_level", "device")

    indexes: Indexes = Field(default_factory=dict, description="A dense index folder; needs queries and a model.")
    models: Encoders = Field(default_factory=dict, description="The model that encodes the queries of the index.")
    runs: Runs = Field(default_factory=dict, description="A TREC run: its top-K errors.")
    depth: Annotated[int, Option("depth")] = Field(
        CUT, gt=0, description="K: how many negatives the top-K errors look at."
    )

    @model_validator(mode="after")
    def _complete(self) -> "Errors":
        if not (self.indexes or self.runs):
            raise ValueError("give indexes, or runs, or both")
        if unknown := sorted(set(self.models) - set(self.indexes)):
            message = f"no index is labelled {', '.join(unknown)}"
            raise ValueError(f"{message}; indexes has {', '.join(self.indexes) or 'none'}")
        if both := sorted(set(self.indexes) & set(self.runs)):
            raise ValueError(f"{', '.join(both)} labels an index and a run: give each a label of its own")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Each index with the model in the same place."""
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if not (indexes or values.get("runs")):
            raise UsageError(
                "analyze errors: give {indexes} (with {queries} and {models}), or {runs}, or both", *_NAMED
            )
        if len(models) != len(indexes):
            raise UsageError(
                "analyze errors: {indexes} needs {queries} and {models}, which encodes them; give one of each", *_NAMED
            )
        return {**values, "models": dict(zip(indexes, models, strict=True))}

    def encoders(self) -> Mapping[str, str]:
        """By default the models that encoded the indexes."""
        return unnamed_encoders(self.indexes, self.models)

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """The errors by label: total and top-K ones of an index, top-K ones of a run.

        Copies of positives, and what another split or a lower grade calls relevant, are no negatives.
        """
        positives, relevant = inputs.positives(), inputs.relevant()
        aside = {name: inputs.copies([*ids, *relevant.get(name, ())]) for name, ids in positives.items()}
        results = {label: self._of_index(inputs, label, positives, aside) for label in self.indexes}
        for label in self.runs:
            lists = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"runs.{label}"))
            results[label] = errors_in_run(lists, positives, self.depth, aside)
        return {label: to_json(each) for label, each in results.items()}

    def _of_index(
        self,
        inputs: AnalysisInputs,
        label: str,
        positives: Mapping[str, Sequence[str]],
        aside: Mapping[str, Sequence[str]],
    ) -> "PairwiseErrors":
        from hardneg.indexes.exact_ranks import corpus_pass

        queries = inputs.queries(inputs.split)
        if not queries:
            raise UsageError("analyze errors: {indexes} needs {queries} and {models}, which encodes them", *_NAMED)
        query_ids = [query_id for query_id in queries if query_id in positives]
        system = inputs.system(f"indexes.{label}", f"models.{label}")
        vectors = system.encode([queries[query_id] for query_id in query_ids])
        wanted = list(dict.fromkeys(doc_id for query_id in query_ids for doc_id in aside[query_id]))
        row_of = dict(zip(wanted, system.rows(wanted).tolist(), strict=True))

        def rows(doc_ids: Sequence[str]) -> Rows:
            return np.array([row_of[doc_id] for doc_id in doc_ids], np.int64)

        def others(query_id: str, own: Rows) -> Rows:
            rows_aside = rows(aside[query_id])
            return rows_aside[rows_aside >= 0]

        corpus = corpus_pass(system.searcher, len(system.doc_ids))
        return errors_in_index(corpus, query_ids, vectors, Relevant(positives, rows, others), self.depth, system.device)

    def table(self, results: Any) -> Table:
        """One row a system: means over queries."""
        rows = [
            [
                label,
                "unknown" if each["total_errors"] is None else f"{each['total_errors']:,.2f}",
                f"{'≥ ' if each['at_least'] else ''}{each['top_errors']:,.2f}",
                f"{each['cut']:,}",
                f"{each['queries']:,}",
                f"{each['at_least']:,} positives" if each["at_least"] else "–",
                "; ".join(f"{count:,} {reason}" for reason, count in each["left_out"].items()) or "–",
            ]
            for label, each in results.items()
        ]
        return Table(("system", "total errors", "top-K errors", "K", "queries", "lower bound for", "left out"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a system: bars are the share of queries by number of errors, the line their share of all errors."""
        shown = {label: [Bucket(**bucket) for bucket in each["distribution"]] for label, each in results.items()}
        names = max(([bucket.label for bucket in buckets] for buckets in shown.values()), key=len, default=[])
        with figure(paths, max(1, len(shown))) as panels:
            for axes, (label, buckets) in zip(panels, shown.items(), strict=False):
                _panel(axes, label, buckets)
                axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


@dataclass(frozen=True)
class Relevant:
    """What is known of the corpus's documents.

    positives: ids by query. rows: the row of each id, int64 [n], -1 where the corpus lacks it. aside: the rows that
    are neither positives nor negatives of a query beside these positives, given the query's id and its positives'
    rows; None where there are no such.
    """

    positives: Mapping[str, Sequence[str]]
    rows: Callable[[Sequence[str]], Rows]
    aside: Callable[[str, Rows], Rows] | None = None


def errors_in_index(
    corpus: "Pass",
    query_ids: Sequence[str],
    queries: NDArray[np.float32],
    relevant: Relevant,
    cut: int = CUT,
    device: str = "cpu",
) -> PairwiseErrors:
    """Total and top-K errors of queries that have positives; positives that the index lacks are counted and left out.

    Args:
        corpus: starts a pass over the vectors.
        query_ids: those of `queries`, float32 [Q, d].
        relevant: positives, and what is neither positive nor negative.
        cut: K.
        device: where to compute.
    """
    from hardneg.indexes.exact_ranks import errors_of_positives, known_pairs

    counts = [relevant.rows(relevant.positives.get(query_id, ())) for query_id in query_ids]
    there = [rows[rows >= 0] for rows in counts]
    lacking = sum(len(rows) for rows in counts) - sum(len(rows) for rows in there)
    kept = [position for position, rows in enumerate(there) if len(rows)]
    query_ids = [query_ids[position] for position in kept]
    own = [there[position] for position in kept]
    aside = (
        [relevant.aside(query_id, rows) for query_id, rows in zip(query_ids, own, strict=True)]
        if relevant.aside
        else None
    )
    known = known_pairs(own, aside)
    errors = by_query(
        query_ids, known.query[known.positive], errors_of_positives(corpus, queries[kept], known, device), cut
    )
    left_out = {"queries without positives": len(counts) - len(kept), "positives that the index lacks": lacking}
    return replace(errors, left_out={reason: count for reason, count in left_out.items() if count})


def _panel(axes: Any, label: str, buckets: Sequence[Bucket]) -> None:
    positions = range(len(buckets))
    axes.bar(positions, [100 * b.queries for b in buckets], color=COLOURS[0], width=0.7, label="of all queries")
    axes.plot(positions, [100 * b.errors for b in buckets], color=COLOURS[1], marker="o", label="of all errors")
    plain_axes(axes, label, "pairwise errors of a query", "share (%)")
    axes.set_ylim(0, 120)
    axes.set_yticks(range(0, 101, 20))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
