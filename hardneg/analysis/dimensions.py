"""What the size of vectors does to a metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from hardneg.analysis.base import Analysis, Metric, Option, doubling
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import MEASURED, Name
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.report.table import Table


class Dimensions(Analysis):
    """Show a metric by the size of vectors.

    Example: hardneg analyze dimensions --qrels qrels.txt --run 32=cort-32.trec.gz --run 128=cort-128.trec.gz
    """

    name = "dimensions"
    title = "size of vectors"
    explained = "Each size is a model of its own."
    paper = "CoRT, section 4.1, the representation size e"
    asks = ("qrels", "relevance_level")

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
        from hardneg.evaluation.metrics import evaluate, means

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

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One line a series."""
        series = {label: [(size, value) for size, value in points] for label, points in results["runs"].items()}
        with figure(paths, 1) as (axes,):
            lines(axes, series)
            doubling(axes, sorted({size for points in series.values() for size, _ in points}))
            plain_axes(axes, f"{results['metric']} by the size of vectors", "dimensions", results["metric"])
