"""The training curve: loss and dev metrics by step."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from hardneg.evaluation.metrics import is_metric
from hardneg.report.axis import axis, frame, spread
from hardneg.report.figure import COLOURS, Points
from hardneg.report.numbers import number
from hardneg.report.svg import Graphic, dot, drawing, fitted, line, words

History = Sequence[Mapping[str, Any]]
"""The trainer's rows: `step`, in some `loss` or dev metrics (`ndcg@10`, `dev_ndcg@10`, or under `dev`)."""

_MOST_POINTS = 300
_DRAWN = 120
_ACROSS, _NAMES = (13.0, 72.0), 75.0
_TOP, _FOOT, _GAP = 10.0, 24.0, 15.0


def measurements(history: History) -> dict[str, Points]:
    """Return the loss, then each dev metric, by step; rows without a step and other values are left out."""
    curves: dict[str, Points] = {"loss": []}
    for row in history:
        flat = {**row, **row["dev"]} if isinstance(row.get("dev"), Mapping) else row
        for key, value in flat.items():
            name = re.sub(r"^dev[_/. ]", "", str(key))
            if (name == "loss" or is_metric(name)) and is_number(value) and is_number(row.get("step")):
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


def panels(histories: Mapping[str, History]) -> list[str]:
    """Return the measurements to draw: the loss, then the first dev metric of any history."""
    names = dict.fromkeys(name for history in histories.values() for name in measurements(history))
    metrics = [name for name in names if name != "loss"]
    return (["loss"] if "loss" in names else []) + metrics[:1]


def learning_graphics(histories: Mapping[str, History]) -> list[Graphic]:
    """Return a figure for each measurement, with a line for each model."""
    parts = {label: measurements(history) for label, history in histories.items()}
    classes = {label: f"c{row % len(COLOURS)}" for row, label in enumerate(histories)}
    graphics = []
    for row, name in enumerate(panels(histories)):
        title = "Training loss" if name == "loss" else f"{name} on the dev set"
        curves = {label: thinned(measured[name], _DRAWN) for label, measured in parts.items() if name in measured}
        graphics.append(Graphic(_drawn(f"learning-{row}", title, curves, classes), f"{title} by step."))
    return graphics


def _drawn(name: str, title: str, curves: Mapping[str, Points], classes: Mapping[str, str]) -> str:
    """A line for each model, with its name at the end of the line if there is room."""
    bottom = _TOP + max(150.0, _GAP * len(curves))
    across = axis([step for points in curves.values() for step, _ in points], _ACROSS)
    upright = axis([value for points in curves.values() for _, value in points], (bottom, _TOP))
    parts = [*frame(across, upright)]
    heights = spread([upright.at(points[-1][1]) for points in curves.values()], _GAP, (_TOP, bottom))
    for (label, points), height in zip(curves.items(), heights, strict=True):
        dots = [(across.at(step), round(upright.at(value), 1)) for step, value in points]
        drawn = (
            line((x, next_x), (y, next_y), f"curve {classes[label]}") for (x, y), (next_x, next_y) in pairwise(dots)
        )
        parts += drawn if len(dots) > 1 else [dot(*dots[0], f"dot {classes[label]}")]
        parts.append(line((dots[-1][0], _NAMES - 1), (dots[-1][1], height), "lead-line"))
        parts.append(words(_NAMES, height + 4, fitted(label, 20), look="mark"))
    text = "; ".join(f"{label}: {number(points[0][1])} to {number(points[-1][1])}" for label, points in curves.items())
    return drawing(name, title, f"{text}.", bottom + _FOOT, parts)


def thinned(points: Points, most: int = _MOST_POINTS) -> Points:
    """Return at most `most` points, each the mean of as many neighbours."""
    size = -(-len(points) // most)
    groups = [points[start : start + size] for start in range(0, len(points), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def is_number(value: object) -> bool:
    """Return whether a value from a file is a number; nan and truth values are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
