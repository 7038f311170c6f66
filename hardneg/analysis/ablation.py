"""Systems of an evaluation by one metric, with their intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hardneg.analysis.base import Analysis, Option, estimates_of
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.report.figure import COLOURS, bar_width, figure, plain_axes
from hardneg.report.table import Table


class Ablation(Analysis):
    """Draw the systems of an evaluation as bars of one metric, with 95 % intervals.

    Example: hardneg analyze ablation runs/adore-ablation-passage/metrics.json --plot ablation.svg
    """

    name = "ablation"
    title = "ablation"
    paper = "STAR/ADORE, Figure 5"

    evaluation: Annotated[Name, Reference(("metrics",)), Option(metavar="METRICS.JSON", argument=True)] = Field(
        description="The metrics.json of a recipe."
    )
    metric: Name | None = Field(None, description="By default the first one that was evaluated.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """The metric, and by system its mean and its interval (None where there is none)."""
        metric, systems = estimates_of(inputs, self.metric)
        intervals = {
            label: [results.interval.low, results.interval.high] if results.interval else None
            for label, results in systems.items()
        }
        means = {label: results.mean for label, results in systems.items()}
        return {"metric": metric, "means": means, "intervals": intervals}

    def table(self, results: Any) -> Table:
        """One row a system."""
        rows = [[label, f"{mean:.4f}"] for label, mean in results["means"].items()]
        return Table(("system", results["metric"]), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Means over queries with their 95 % intervals, in the order given; the bars start at zero."""
        means = results["means"]
        with figure(paths, 1, width=bar_width(len(means))) as (axes,):
            axes.bar(range(len(means)), list(means.values()), color=COLOURS[0], width=0.65)
            for position, (label, mean) in enumerate(means.items()):
                if ends := results["intervals"].get(label):
                    look = {"color": "#333333", "capsize": 3, "linewidth": 1}
                    axes.errorbar(position, mean, [[mean - ends[0]], [ends[1] - mean]], **look)
                axes.annotate(
                    f"{mean:.3f}", (position, 0), (0, 4), textcoords="offset points", ha="center", color="white"
                )
            axes.set_xticks(range(len(means)), list(means), rotation=20, ha="right", fontsize=8)
            plain_axes(axes, f"{results['metric']} with 95 % intervals", "", results["metric"])
