"""How fixed negatives age while a model learns: their overlap with the real hard ones, and their best rank."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from hardneg.analysis.base import Analysis, Trainings, curves_of, of_each_history
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.report.figure import Points, by_measurement, decades, figure, lines, plain_axes
from hardneg.report.table import Table

_LABELS = {
    "overlap": ("overlap with the real hard negatives", "overlap (share)"),
    "best_rank": ("best rank of the fixed negatives", "rank (mean over queries)"),
    "best_rank_median": ("best rank of the fixed negatives", "rank (median over queries)"),
}


class Drift(Analysis):
    """Show how fixed negatives age while a model learns: overlap with the real hard ones, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """

    name = "drift"
    title = "drift of fixed negatives"
    paper = "STAR/ADORE, Figure 4"

    trainings: Trainings = Field(min_length=1, description="history.jsonl files of trainings.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, dict[str, Points]]:
        """The numbers under `drift` by step, of each training: `overlap`, `best_rank`, a metric, ..."""
        lacking = "holds no `drift`; train with `watch`"
        return of_each_history(
            inputs, list(self.trainings), lambda history: curves_of(history, lambda row: row.get("drift")), lacking
        )

    def table(self, results: Any) -> Table:
        """One row a training and measurement."""
        rows = [
            [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
            for label, curves in results.items()
            for name, curve in curves.items()
        ]
        return Table(("training", "measured", "first", "last", "at step"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a measurement, one line a training."""
        measured = by_measurement(results)
        with figure(paths, max(1, len(measured))) as panels:
            for axes, (name, series) in zip(panels, measured.items(), strict=False):
                title, unit = _LABELS.get(name, (f"{name} of the watched queries", name))
                lines(axes, series)
                plain_axes(axes, title, "training step", unit)
                if name.startswith("best_rank"):
                    decades(axes, series)
                if name == "overlap":
                    axes.set_ylim(0, 1)
