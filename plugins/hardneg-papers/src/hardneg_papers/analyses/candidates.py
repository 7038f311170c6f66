"""What reranking fewer candidates costs, and how small vectors can be."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
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
        """Of each pair of runs what `candidate_counts` says."""
        qrels, counts, level = inputs.qrels(), sorted(set(self.counts)), inputs.relevance_level
        results = {}
        for label in self.first:
            runs = inputs.run(f"first.{label}"), inputs.run(f"reranked.{label}")
            results[label] = candidate_counts(label, runs, (counts, self.metric), qrels, level)
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


def candidate_counts(
    label: str,
    runs: tuple[Run, Run],
    counts_and_metric: tuple[Sequence[int], str],
    qrels: dict[str, dict[str, int]],
    relevance_level: int = 1,
) -> list[dict[str, Any]]:
    """For each count: `candidates`, `quality`, `recall`, `documents` (the mean number of candidates).

    A reranker scores each document alone, so that one reranked list holds those of all its prefixes; nothing is scored
    here. Means are over all judged queries.

    Args:
        label: how messages call the runs.
        runs: the first-stage run and the same reranked, both best first.
        counts_and_metric: how many candidates, and the metric of the reranked ones.
        qrels: the judgements.
        relevance_level: the lowest grade that recall, and binary metrics, take as relevant.

    Raises:
        DataError: a reranked list lacks a candidate.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, figure 2.
    """
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

    positions: for each query the first-stage places of its reranked documents, from 0, int64 [n].
    """
    cut = {}
    for (query_id, ranked), position in zip(reranked.items(), positions, strict=True):
        kept = np.flatnonzero(position < count)
        cut[query_id] = RankedList([ranked.doc_ids[i] for i in kept.tolist()], ranked.scores[kept])
    return cut


def _ids(run: Run, query_id: str) -> Sequence[str]:
    return run[query_id].doc_ids if query_id in run else ()


def _positions(label: str, first: Run, reranked: Run, most: int) -> list[NDArray[np.int64]]:
    """Where the reranked documents stand in the first stage's lists; those that it lacks stand behind all."""
    for query_id, ranked in first.items():
        doc_ids = ranked.doc_ids
        if lacking := set(doc_ids[:most]).difference(_ids(reranked, query_id)):
            raise DataError(
                f"{label}: the reranked run lacks {len(lacking)} of the first {min(most, len(doc_ids))} candidates of "
                f"query {query_id}, such as {min(lacking)}; rerank deeper, or ask for fewer candidates"
            )
    results = []
    for query_id, ranked in reranked.items():
        position = {doc_id: number for number, doc_id in enumerate(_ids(first, query_id))}
        results.append(np.array([position.get(doc_id, np.iinfo(np.int64).max) for doc_id in ranked.doc_ids], np.int64))
    return results


class Dimensions(Analysis):
    """Show a metric by the size of vectors.

    Example: hardneg analyze dimensions --qrels qrels.txt --run 32=cort-32.trec.gz --run 128=cort-128.trec.gz
    """

    name = "dimensions"
    title = "size of vectors"
    explained = "Each size is a model of its own."
    paper = "CoRT, section 4.1, the representation size e"
    asks = ("qrels", "relevance_level")
    drawn, across = slice(1, None), 0

    runs: Annotated[
        dict[Name, Annotated[dict[PositiveInt, Name], Field(min_length=1)]],
        MEASURED,
        Option("run", metavar="[LABEL:]SIZE=PATH"),
    ] = Field(min_length=1, description="A run of a model with vectors of SIZE.")
    metric: Metric = Field("recall@200", description="What is measured.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By label, the metric of the run of each size of vectors, by rising size: [[size, mean], ...].

        Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 4.1.
        """
        qrels, level = inputs.qrels(), inputs.relevance_level
        results: dict[str, list[Any]] = {}
        for label, runs in self.runs.items():
            for size in sorted(runs):
                values = means(evaluate(inputs.run(f"runs.{label}.{size}"), qrels, [self.metric], level))
                results.setdefault(label, []).append([size, values[self.metric]])
        return {"metric": self.metric, "relevance_level": level, "runs": results}

    def table(self, results: Any) -> Table:
        """One row a size of vectors, one column a series; a dash where it has no such size."""
        series = {label: dict(points) for label, points in results["runs"].items()}
        sizes = sorted({size for points in series.values() for size in points})
        rows = [
            [f"{size:,}", *(f"{points[size]:.4f}" if size in points else "–" for points in series.values())]
            for size in sizes
        ]
        return Table(("dimensions", *(f"{label}: {results['metric']}" for label in series)), rows)
