"""What reranking fewer candidates costs: one reranked run, cut as if less had been reranked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from hardneg.analysis.base import Analysis, MeasuredRuns, Metric, Option, doubling
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import MEASURED, Name
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import EMPTY, Run
from hardneg.records.errors import DataError, UsageError
from hardneg.records.types import RankedList
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.report.table import Table


class CandidateCounts(Analysis):
    """Show the quality of reranking fewer candidates, and their recall, from runs that were reranked once.

    Example: hardneg analyze candidates --qrels qrels.txt --run bm25.trec.gz --reranked bm25-reranked.trec.gz
    """

    name = "candidates"
    title = "number of candidates"
    paper = "CoRT at TREC, Figure 2"
    asks = ("qrels", "relevance_level")

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
        """Of each pair of runs what `candidate_counts` says."""
        qrels, counts, level = inputs.qrels(), sorted(set(self.counts)), inputs.relevance_level
        results = {
            label: candidate_counts(
                label,
                (inputs.run(f"first.{label}"), inputs.run(f"reranked.{label}")),
                (counts, self.metric),
                qrels,
                level,
            )
            for label in self.first
        }
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
        """With the metric and the grades."""
        return (
            f"{results['metric']} after reranking the first so many candidates alone, and the recall of those "
            "candidates; from one reranked run, cut. Relevant to binary metrics are grades from "
            f"{results['relevance_level']} up."
        )

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Quality by the number of candidates, and their recall, one line a pipeline."""
        with figure(paths, 2) as panels:
            for axes, (name, title) in zip(panels, (("quality", results["metric"]), ("recall", "recall")), strict=True):
                runs = results["runs"].items()
                lines(axes, {label: [(row["candidates"], row[name]) for row in rows] for label, rows in runs})
                doubling(axes, results["counts"])
                plain_axes(axes, f"{title} by the number of candidates", "candidates", title)


def candidate_counts(
    label: str,
    runs: tuple[Run, Run],
    counts_and_metric: tuple[Sequence[int], str],
    qrels: Qrels,
    relevance_level: int = 1,
) -> list[dict[str, Any]]:
    """For each count: `candidates`, `quality`, `recall`, `documents` (the mean number of candidates).

    A reranker scores each document alone, so that one reranked list holds those of all its prefixes; nothing is scored
    here. Means are over all judged queries.

    Args:
        label: how messages call the runs.
        runs: the first-stage run and the same reranked, both best first.
        asked: how many candidates, and the metric of the reranked ones.
        qrels: the judgements.
        relevance_level: the lowest grade that recall, and binary metrics, take as relevant.

    Raises:
        DataError: a reranked list lacks a candidate.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, figure 2.
    """
    from hardneg.evaluation.metrics import evaluate, means

    (first, reranked), (counts, metric) = runs, counts_and_metric
    positions = _positions(label, first, reranked, max(counts))
    recall = means(evaluate(first, qrels, [f"recall@{count}" for count in counts], relevance_level))
    rows = []
    for count in counts:
        run = prefix(reranked, positions, count)
        quality = means(evaluate(run, qrels, [metric], relevance_level))[metric]
        documents = float(np.mean([min(count, len(ranked.doc_ids)) for ranked in first.values()] or [0]))
        results = {"candidates": count, "quality": quality, "recall": recall[f"recall@{count}"], "documents": documents}
        rows.append(results)
    return rows


def prefix(reranked: Run, positions: Sequence[NDArray[np.int64]], count: int) -> Run:
    """The reranked run as if only the first `count` candidates had been reranked.

    places: for each query the first-stage places of its reranked documents, from 0, int64 [n].
    """
    cut = {}
    for (query_id, ranked), position in zip(reranked.items(), positions, strict=True):
        kept = np.flatnonzero(position < count)
        cut[query_id] = RankedList([ranked.doc_ids[i] for i in kept.tolist()], ranked.scores[kept])
    return cut


def _positions(label: str, first: Run, reranked: Run, most: int) -> list[NDArray[np.int64]]:
    """Where the reranked documents stand in the first stage's lists; those that it lacks stand behind all."""
    for query_id, ranked in first.items():
        doc_ids = ranked.doc_ids
        if lacking := set(doc_ids[:most]).difference(reranked.get(query_id, EMPTY).doc_ids):
            raise DataError(
                f"{label}: the reranked run lacks {len(lacking)} of the first {min(most, len(doc_ids))} candidates of "
                f"query {query_id}, such as {min(lacking)}; rerank deeper, or ask for fewer candidates"
            )
    results = []
    for query_id, ranked in reranked.items():
        position = {doc_id: number for number, doc_id in enumerate(first.get(query_id, EMPTY).doc_ids)}
        results.append(np.array([position.get(doc_id, np.iinfo(np.int64).max) for doc_id in ranked.doc_ids], np.int64))
    return results
