"""What is left of a model when the first dimensions of its vectors are used alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from hardneg.analysis.base import OfIndexes, Option, doubling
from hardneg.analysis.inputs import AnalysisInputs, System
from hardneg.fields import MetricName
from hardneg.records.errors import UsageError
from hardneg.records.types import Hits, RankedList
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.report.table import Table

_DEPTH = 100


class Truncation(OfIndexes):
    """Show metrics of an index by how many dimensions of its vectors are kept, as Matryoshka models have them.

    Truncated vectors of norm 1 are normalised again. Every search is exact.

    Example: hardneg analyze truncation --index FOLDER --model A --dims 384 --dims 64 --qrels Q --queries FILE
    """

    name = "truncation"
    title = "dimensions kept"
    explained = "The vectors are encoded once; of each, the first dimensions are searched alone."
    paper = "Matryoshka Representation Learning, section 4.2"
    asks = ("qrels", "queries", "relevance_level", "device")

    dims: Annotated[tuple[PositiveInt, ...], Option("dims")] = Field(
        min_length=1, description="How many dimensions to keep."
    )
    metrics: Annotated[
        tuple[MetricName, ...], Option("metrics", same=("metric",), metavar="NAME..."), Field(min_length=1)
    ] = Field(("mrr@10", "ndcg@10", "recall@100"), description="What is measured.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By label, the means of the metrics at each number of dimensions, from the largest on: [[dims, {metric}]]."""
        qrels, texts = inputs.qrels(), inputs.queries(inputs.split)
        query_ids = [query_id for query_id in qrels if query_id in texts]
        if not query_ids:
            raise UsageError("no judged query has a text: give the queries of these judgements")
        wanted = [texts[query_id] for query_id in query_ids]
        results = {}
        for label in self.indexes:
            system = inputs.system(f"indexes.{label}", f"models.{label}")
            by_dim = self._searched(system, wanted)
            results[label] = [[dim, self._means(inputs, system, query_ids, hits)] for dim, hits in by_dim.items()]
        return {"metrics": list(self.metrics), "relevance_level": inputs.relevance_level, "indexes": results}

    def _searched(self, system: System, texts: Sequence[str]) -> dict[int, Hits]:
        from hardneg.indexes.exact_ranks import corpus_pass
        from hardneg.indexes.truncated import search_truncated

        dims = sorted({*self.dims}, reverse=True)
        corpus = corpus_pass(system.searcher, len(system.doc_ids))
        return search_truncated(corpus, system.encode(texts), dims, _DEPTH, system.device)

    def _means(self, inputs: AnalysisInputs, system: System, query_ids: Sequence[str], hits: Hits) -> dict[str, float]:
        from hardneg.evaluation.metrics import evaluate, means

        rows = [listed[listed >= 0] for listed in hits.rows]
        run = {
            query_id: RankedList([system.doc_ids[row] for row in listed.tolist()], scores[: len(listed)])
            for query_id, listed, scores in zip(query_ids, rows, hits.scores, strict=True)
        }
        return means(evaluate(run, inputs.qrels(), self.metrics, inputs.relevance_level))

    def table(self, results: Any) -> Table:
        """One row an index and number of dimensions."""
        rows = [
            [label, f"{dim:,}", *(f"{measured[name]:.4f}" for name in results["metrics"])]
            for label, points in results["indexes"].items()
            for dim, measured in points
        ]
        return Table(("index", "dimensions", *results["metrics"]), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a metric, one line an index."""
        dims = sorted({dim for points in results["indexes"].values() for dim, _ in points})
        with figure(paths, len(results["metrics"])) as panels:
            for axes, name in zip(panels, results["metrics"], strict=True):
                series = {
                    label: [(float(dim), measured[name]) for dim, measured in reversed(points)]
                    for label, points in results["indexes"].items()
                }
                lines(axes, series)
                doubling(axes, dims)
                plain_axes(axes, f"{name} by dimensions kept", "dimensions", name)
