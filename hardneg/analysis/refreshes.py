"""How training goes while negatives are refreshed: the loss, the dev metrics, and where refreshes were taken up."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from hardneg.analysis.base import Analysis, Trainings, of_each_history
from hardneg.analysis.inputs import AnalysisInputs, Record
from hardneg.report.curve import is_number, measurements, thinned
from hardneg.report.figure import COLOURS, Points, figure, lines, plain_axes
from hardneg.report.table import Table


class Refreshes(Analysis):
    """Show loss and dev metric by step for several trainings, and where their negatives were refreshed.

    Example: hardneg analyze refreshes every-100/history.jsonl every-500/history.jsonl --plot refreshes.svg
    """

    name = "refreshes"
    title = "refreshed negatives"
    explained = (
        "Refreshes: how often training went over to newly mined negatives; lag: steps between the model that mined and "
        "the one that was trained. Loss: of the last tenth of the steps. The deepest fall: how far the dev metric once "
        "was below its best until then."
    )
    paper = "ANCE, Figure 5"

    trainings: Trainings = Field(min_length=1, description="history.jsonl files of trainings.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, dict[str, Any]]:
        """Of each training what `refreshes` says."""
        lacking = "holds no `loss`; give the history of a training"
        return of_each_history(inputs, list(self.trainings), refreshes, lacking)

    def table(self, results: Any) -> Table:
        """One row a training. Its dev metric is the first one of any."""
        metric = next(iter(_dev_metrics(results)), None)
        columns = ("training", "steps", "refreshes", "mean lag", "largest lag", "kept at last", "loss")
        rows = [
            [
                label,
                f"{each['steps']:,}",
                f"{len(each['refreshes']):,}",
                *(f"{each['lag'][name]:,.1f}" if each["lag"] else "–" for name in ("mean", "largest")),
                f"{100 * each['kept'][-1][1]:.1f} %" if each["kept"] else "–",
                f"{each['loss']:.4f}",
                *(_best(each, metric) if metric else ()),
            ]
            for label, each in results.items()
        ]
        return Table((*columns, *((f"best {metric}", "at step", "last", "deepest fall") if metric else ())), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Two panels, the loss and the first dev metric, one line a training; a bar across its line is a refresh."""
        names = ["loss", *_dev_metrics(results)[:1]]
        with figure(paths, len(names)) as panels:
            for axes, name in zip(panels, names, strict=True):
                lines(axes, {label: each["curves"].get(name, []) for label, each in results.items()})
                for position, each in enumerate(results.values()):
                    _mark(axes, each["curves"].get(name, []), each["refreshes"], COLOURS[position % len(COLOURS)])
                title = "training loss" if name == "loss" else f"{name} on the dev set"
                plain_axes(axes, f"{title}; bars: refreshes", "training step", name)


def refreshes(history: Sequence[Record]) -> dict[str, Any]:
    """What a training's history says of its refreshes; a history without any has its curves alone.

    Returns:
        `steps`; `loss`: the mean over their last tenth; `curves`: the loss in 300 points, then each dev metric;
        `refreshes`: a step, counted from 1, and the number of the refresh that it was the first to use (what the very
        first step used is none); `lag`: `mean` and `largest`, in steps between the model that mined and the one that
        was trained, None where that is not told; `kept`: a step that took up other negatives, and the share of them
        that was there before; `falls`: by dev metric, how far it once was below its best until then.
        Empty where there is no loss.

    Source: ANCE (Xiong et al., ICLR 2021), figure 5.
    """
    curves = measurements(history)
    if "loss" not in curves:
        return {}
    lags = [record["lag"] for record in history if is_number(record.get("lag"))]
    last = [value for _, value in curves["loss"][-max(1, len(curves["loss"]) // 10) :]]
    return {
        "steps": int(max(step for step, _ in curves["loss"])),
        "loss": sum(last) / len(last),
        "curves": {name: thinned(curve) if name == "loss" else curve for name, curve in curves.items()},
        "refreshes": _taken_up(history, curves["loss"][0][0]),
        "lag": {"mean": sum(lags) / len(lags), "largest": max(lags)} if lags else None,
        "kept": [(int(row["step"]), float(row["kept"])) for row in history if is_number(row.get("kept"))],
        "falls": {name: _fall(curve) for name, curve in curves.items() if name != "loss"},
    }


def _taken_up(history: Sequence[Record], first: float) -> list[tuple[int, int]]:
    taken: list[tuple[int, int]] = []
    used: int | None = None
    for record in history:
        number = record.get("refresh")
        if number is not None and number != used:
            used = int(number)
            if record["step"] != first:
                taken.append((int(record["step"]), used))
    return taken


def _fall(curve: Points) -> float:
    best, fall = curve[0][1], 0.0
    for _, value in curve:
        best = max(best, value)
        fall = max(fall, best - value)
    return fall


def _dev_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The dev metrics of any training, each once."""
    return list(dict.fromkeys(name for each in metrics.values() for name in each["curves"] if name != "loss"))


def _best(each: Mapping[str, Any], metric: str) -> list[str]:
    curve = each["curves"].get(metric)
    if not curve:
        return ["–"] * 4
    step, best = max(curve, key=lambda point: point[1])
    return [f"{best:.4f}", f"{step:,.0f}", f"{curve[-1][1]:.4f}", f"{each['falls'][metric]:.4f}"]


def _mark(axes: Any, curve: Points, taken_up: Sequence[tuple[int, int]], colour: str) -> None:
    """A bar at each refresh that the curve reaches."""
    if curve:
        steps, values = zip(*curve, strict=True)
        positions = [step for step, _ in taken_up if steps[0] <= step <= steps[-1]]
        axes.plot(positions, np.interp(positions, steps, values), "|", color=colour, markersize=11, markeredgewidth=1.4)
