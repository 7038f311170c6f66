"""How many of the negatives of training are met in testing, through training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, model_validator

from hardneg.analysis.base import Analysis, Option, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.analysis.shares import negatives_overlap
from hardneg.fields import Name, Reference
from hardneg.formats.negatives import read_negatives
from hardneg.records.depths import LIST_DEPTH
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.report.table import Table

_BySteps = Annotated[dict[NonNegativeInt, Name], Field(min_length=1)]


class OverlapCurve(Analysis):
    """Show how many of its training negatives the model meets in its own run, at several steps of training.

    Negatives count from their step on until the next of the same label; give fixed ones once, for step 0.

    Example: hardneg analyze overlap-curve --negatives 0=negatives.arrow --run 0=start.trec.gz --run 50=later.trec.gz
    """

    name = "overlap-curve"
    title = "negatives met in testing, through training"
    paper = "ANCE's first version, Figure 3"
    asks = ("qrels?",)

    negatives: Annotated[
        dict[Name, _BySteps], Reference(("negatives",)), Option("negatives", metavar="[LABEL:]STEP=PATH")
    ] = Field(min_length=1, description="A negatives.arrow that is trained on from STEP on.")
    met: Annotated[dict[Name, _BySteps], Reference(("run",)), Option("run", metavar="[LABEL:]STEP=PATH")] = Field(
        min_length=1, description="A run over the same queries by the model as it is at STEP."
    )
    depth: int = Field(LIST_DEPTH, gt=0, description="How far down the lists are looked at.")

    @model_validator(mode="after")
    def _fits(self) -> "OverlapCurve":
        if lacking := sorted(set(self.negatives) ^ set(self.met)):
            raise ValueError(f"{', '.join(lacking)}: negatives and met need the same labels")
        early = [label for label, runs in self.met.items() if min(runs) < min(self.negatives[label])]
        if early:
            raise ValueError(f"{', '.join(early)}: a run is before the first negatives; give those for step 0")
        return self

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By training the overlap at each step, and the step since which those negatives were trained on."""
        relevant = inputs.relevant()
        curves: dict[str, list[dict[str, Any]]] = {}
        for label, runs in self.met.items():
            files = {
                step: read_negatives(inputs.negatives(f"negatives.{label}.{step}")) for step in self.negatives[label]
            }
            for step in sorted(runs):
                since = max(first for first in files if first <= step)
                met = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"met.{label}.{step}"))
                shared = negatives_overlap(files[since], met, relevant, self.depth)
                curves.setdefault(label, []).append({"step": step, "since": since, **shared.to_json()})
        return {"depth": self.depth, "trainings": curves}

    def table(self, results: Any) -> Table:
        """One row a training and step."""
        rows = [
            [
                label,
                f"{row['step']:,}",
                f"{row['since']:,}",
                percent(row["overlap"]),
                f"{row['queries']:,}",
                f"{sum(row['left_out'].values()):,}",
            ]
            for label, curve in results["trainings"].items()
            for row in curve
        ]
        columns = ("training", "step", "negatives since", f"overlap at {results['depth']}", "queries", "left out")
        return Table(columns, rows)

    def explain(self, results: Any) -> str:
        """With the depth."""
        return (
            "Means over queries: of the negatives that are trained on at a step, the share that is among the first "
            f"{results['depth']} documents that the model of that step finds and that are not relevant."
        )

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One line a training, by step."""
        series = {
            label: [(float(row["step"]), 100 * row["overlap"]) for row in curve if row["overlap"] is not None]
            for label, curve in results["trainings"].items()
        }
        with figure(paths, 1) as (axes,):
            lines(axes, series)
            axes.set_ylim(0, 105)
            plain_axes(
                axes, f"training negatives met in testing, {results['depth']} deep", "training step", "share (%)"
            )
