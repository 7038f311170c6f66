"""What reranking fewer candidates costs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from hardneg.plugin import (
    MEASURED,
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    RankedList,
    Table,
    UsageError,
    evaluate,
    means,
)
from hardneg_papers.analyses.shared import MeasuredRuns, Metric

Run = Mapping[str, RankedList]


class CandidateCounts(Analysis):
    """Show the quality of reranking fewer candidates, and their recall, from runs that were reranked once.

    Example: hardneg analyze candidates --qrels qrels.txt --run bm25.trec.gz --reranked bm25-reranked.trec.gz
    """

    name = "candidates"
    title = "number of candidates"
    paper = "CoRT at TREC, Figure 2"
    asks = ("qrels", "relevance_level")
    drawn, across = slice(1, None), 0

    first: MeasuredRuns = Field(min_length=1, description="A TREC run, plain or gzip; may be repeated.")
    reranked: Annotated[dict[Name, Name], MEASURED] = Field(
        min_length=1, description="The reranked run, one for each run, in their order."
    )
    counts: Annotated[tuple[PositiveInt, ...], Option("depth"), Field(min_length=1)] = Field(
        (16, 32, 64, 128, 256, 512, 1000), description="How many candidates; by default 16 to 1000."
    )
    metric: Metric = Field("ndcg@10", description="What is measured.")

    @model_validator(mode="after")
    def _paired(self) -> "CandidateCounts":
        if list(self.first) != list(self.reranked):
            raise ValueError("first and reranked need the same labels, in the same order")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """The reranked runs have the labels of those in the same place."""
        first, reranked = values["first"], values["reranked"]
        if len(first) != len(reranked):
            message = f"{len(reranked)} {{reranked}} for {len(first)} {{first}}: give one of each"
            raise UsageError(f"analyze candidates: {message}", "reranked", "first")
        return {**values, "reranked": dict(zip(first, reranked.values(), strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """For each pair of runs and each count: `candidates`, `quality`, `recall`, `documents` (their mean number).

        A reranker scores each document alone, so that one reranked list holds those of all its prefixes; nothing is
        scored here. Means are over all judged queries.

        Raises:
            DataError: a reranked list lacks a candidate.

        Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, figure 2.
        """
        qrels, counts, level = inputs.qrels(), sorted(set(self.counts)), inputs.relevance_level
        results: dict[str, list[dict[str, Any]]] = {}
        for label in self.first:
            first, reranked = inputs.run(f"first.{label}"), inputs.run(f"reranked.{label}")
            _check(label, first, reranked, max(counts))
            recall = means(evaluate(first, qrels, [f"recall@{count}" for count in counts], level))
            for count in counts:
                quality = means(evaluate(prefix(first, reranked, count), qrels, [self.metric], level))[self.metric]
                documents = float(np.mean([min(count, len(ranked.doc_ids)) for ranked in first.values()] or [0]))
                row = {"candidates": count, "quality": quality, "recall": recall[f"recall@{count}"]}
                results.setdefault(label, []).append({**row, "documents": documents})
        return {"metric": self.metric, "counts": counts, "relevance_level": level, "runs": results}

    def table(self, results: Any) -> Table:
        """One row a number of candidates: quality of each pipeline, then the recall of its candidates."""
        runs, metric = results["runs"], results["metric"]
        rows = [
            [f"{row[0]['candidates']:,}", *(f"{each[name]:.4f}" for name in ("quality", "recall") for each in row)]
            for row in zip(*runs.values(), strict=True)
        ]
        columns = [f"{label}: {name}" for name in (metric, "recall") for label in runs]
        return Table(("candidates", *columns), rows)

    def explain(self, results: Any) -> str:
        return (
            f"{results['metric']} after reranking the first so many candidates alone, and the recall of those "
            "candidates; from one reranked run, cut. Relevant to binary metrics are grades from "
            f"{results['relevance_level']} up."
        )


def prefix(first: Run, reranked: Run, count: int) -> Run:
    """The reranked run as if only the first `count` candidates had been reranked."""
    cut = {}
    for query_id, ranked in reranked.items():
        among = set(_ids(first, query_id)[:count])
        kept = [row for row, doc_id in enumerate(ranked.doc_ids) if doc_id in among]
        cut[query_id] = RankedList([ranked.doc_ids[row] for row in kept], ranked.scores[kept])
    return cut


def _ids(run: Run, query_id: str) -> Sequence[str]:
    return run[query_id].doc_ids if query_id in run else ()


def _check(label: str, first: Run, reranked: Run, most: int) -> None:
    for query_id, ranked in first.items():
        asked = ranked.doc_ids[:most]
        if lacking := set(asked).difference(_ids(reranked, query_id)):
            raise DataError(
                f"{label}: the reranked run lacks {len(lacking)} of the first {len(asked)} candidates of query "
                f"{query_id}, such as {min(lacking)}; rerank deeper, or ask for fewer candidates"
            )
