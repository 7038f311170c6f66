"""How large gradients are while a model trains, by third of its layers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from hardneg.analysis.base import Analysis, Trainings, curves_of, of_each_history
from hardneg.analysis.inputs import AnalysisInputs, Record
from hardneg.report.curve import thinned
from hardneg.report.figure import by_measurement, decades, figure, lines, plain_axes
from hardneg.report.table import Table

_NORM = "2-norm before clipping"
_TITLES = {"loss": ("training loss", "loss"), "all": ("gradients", _NORM)}
_TITLES |= {name: (f"gradients of the {name} layers", _NORM) for name in ("bottom", "middle", "top")}
_NAMES = ("loss", "bottom", "middle", "top")


class Gradients(Analysis):
    """Show the loss and the norms of the gradients while a model trains, by third of its layers.

    Example: hardneg analyze gradients bm25/history.jsonl refreshed/history.jsonl --plot gradients.svg
    """

    name = "gradients"
    title = "loss and gradients"
    explained = (
        "The loss, and 2-norms of the gradients before clipping, by third of the transformer's layers: embeddings "
        "belong to the bottom, the head to the top."
    )
    paper = "ANCE, Figure 4"

    trainings: Trainings = Field(min_length=1, description="history.jsonl files of trainings.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, dict[str, Any]]:
        """Of each training what `gradients` says."""
        return of_each_history(inputs, list(self.trainings), gradients, "holds no `gradient_norms`; train again")

    def table(self, results: Any) -> Table:
        """One row a training and measurement."""
        rows = [
            [label, name, f"{each['mean']:.4g}", f"{each['largest']:.4g}", f"{each['steps']:,}"]
            for label, measured in results.items()
            for name, each in measured.items()
        ]
        return Table(("training", "measured", "mean", "largest", "steps"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a measurement, one line a training."""
        curves = {label: {name: each["curve"] for name, each in one.items()} for label, one in results.items()}
        panels = by_measurement(curves)
        names = [*(name for name in _NAMES if name in panels), *(name for name in panels if name not in _NAMES)]
        with figure(paths, len(names)) as drawn:
            for axes, name in zip(drawn, names, strict=True):
                lines(axes, panels[name])
                title, unit = _TITLES.get(name, (f"gradients of {name}", _NORM))
                plain_axes(axes, title, "training step", unit)
                decades(axes, panels[name])


def gradients(history: Iterable[Record]) -> dict[str, Any]:
    """The loss and the norm of each group's gradients: mean and largest over all steps, and a curve of 300 points.

    Empty where no record has norms.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    return {
        name: {
            "mean": math.fsum(value for _, value in curve) / len(curve),
            "largest": max(value for _, value in curve),
            "steps": len(curve),
            "curve": thinned(curve),
        }
        for name, curve in curves_of(history, _norms).items()
    }


def _norms(record: Record) -> Record | None:
    norms = record.get("gradient_norms")
    return {"loss": record.get("loss"), **norms} if isinstance(norms, Mapping) else None
