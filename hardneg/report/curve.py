"""The training curve: loss and dev metrics by step."""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hardneg.evaluation.metrics import is_metric
from hardneg.report.figure import Points, graphic, lines, plain_axes
from hardneg.report.table import Graphic, number

History = Sequence[Mapping[str, Any]]
"""The trainer's rows: `step`, in some `loss` or dev metrics (`ndcg@10`, `dev_ndcg@10`, or under `dev`)."""

_DRAWN = 120


def measurements(history: History) -> dict[str, Points]:
    """Return the loss, then each dev metric, by step; rows without a step and other values are left out."""
    curves: dict[str, Points] = {"loss": []}
    for row in history:
        flat = {**row, **row["dev"]} if isinstance(row.get("dev"), Mapping) else row
        for key, value in flat.items():
            name = re.sub(r"^dev[_/. ]", "", str(key))
            if (name == "loss" or is_metric(name)) and _is_number(value) and _is_number(row.get("step")):
                curves.setdefault(name, []).append((float(row["step"]), float(value)))
    return {name: points for name, points in curves.items() if points}


def mean_history(histories: Sequence[History]) -> list[dict[str, Any]]:
    """Return the mean history of several seeds: at each step the mean over those that have it."""
    if len(histories) == 1:
        return [dict(row) for row in histories[0]]
    values: dict[float, dict[str, list[float]]] = {}
    for history in histories:
        for name, points in measurements(history).items():
            for step, value in points:
                values.setdefault(step, {}).setdefault(name, []).append(value)
    return [{"step": step, **{name: fmean(each) for name, each in values[step].items()}} for step in sorted(values)]


def learning_graphics(histories: Mapping[str, History]) -> list[Graphic]:
    """Return a figure for each measurement, with a line for each model."""
    parts = {label: measurements(history) for label, history in histories.items()}
    names = list(dict.fromkeys(name for measured in parts.values() for name in measured))
    graphics = []
    shown = [name for name in names if name == "loss"] + [name for name in names if name != "loss"][:1]
    for row, name in enumerate(shown):
        title = "Training loss" if name == "loss" else f"{name} on the dev set"
        curves = {label: _thinned(measured[name]) for label, measured in parts.items() if name in measured}
        ends = (f"{label}: {number(points[0][1])} to {number(points[-1][1])}" for label, points in curves.items())

        def draw(axes: Any, curves: Mapping[str, Points] = curves) -> None:
            lines(axes, curves)
            plain_axes(axes, "", "step", "")

        graphics.append(graphic(f"learning-{row}", title, f"{'; '.join(ends)}.", f"{title} by step.", draw))
    return graphics


def _thinned(points: Points) -> Points:
    """Return at most `_DRAWN` points, each the mean of as many neighbours."""
    size = -(-len(points) // _DRAWN)
    groups = [points[start : start + size] for start in range(0, len(points), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def _is_number(value: object) -> bool:
    """Return whether a value from a file is a number; nan and truth values are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
