"""The training curve: loss and dev metrics by step, as an SVG that fits light and dark pages."""

import io
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hardneg.evaluation.metrics import is_metric
from hardneg.reporting.figure import Points, lines, plain_axes, svg_figure

History = Sequence[Mapping[str, Any]]
"""The trainer's rows: `step`, in some `loss` or dev metrics (`ndcg@10`, `dev_ndcg@10`, or under `dev`)."""

_MOST_POINTS = 300


def measurements(history: History) -> dict[str, Points]:
    """The loss, then each dev metric, by step; rows without a step, and what is no number, do not count."""
    found: dict[str, Points] = {"loss": []}
    for row in history:
        flat = {**row, **row["dev"]} if isinstance(row.get("dev"), Mapping) else row
        for key, value in flat.items():
            name = re.sub(r"^dev[_/. ]", "", str(key))
            if (name == "loss" or is_metric(name)) and is_number(value) and is_number(row.get("step")):
                found.setdefault(name, []).append((float(row["step"]), float(value)))
    return {name: points for name, points in found.items() if points}


def mean_history(histories: Sequence[History]) -> list[dict[str, Any]]:
    """One history of several of the same training: at each step the mean over those that have it; one is as it is."""
    if len(histories) == 1:
        return [dict(row) for row in histories[0]]
    values: dict[float, dict[str, list[float]]] = {}
    for history in histories:
        for name, points in measurements(history).items():
            for step, value in points:
                values.setdefault(step, {}).setdefault(name, []).append(value)
    return [{"step": step, **{name: fmean(found) for name, found in values[step].items()}} for step in sorted(values)]


def panels(histories: Mapping[str, History]) -> list[str]:
    """What there is to draw, one panel each: the loss, then the first dev metric of any history."""
    names = dict.fromkeys(name for history in histories.values() for name in measurements(history))
    metrics = [name for name in names if name != "loss"]
    return (["loss"] if "loss" in names else []) + metrics[:1]


def curve_svg(histories: Mapping[str, History]) -> str:
    """One line a model and one panel a measurement, on no ground, in letters that suit light and dark pages.

    Empty where there is nothing to draw; equal histories give equal text.
    """
    found = {label: measurements(history) for label, history in histories.items()}
    names = panels(histories)
    if not names:
        return ""
    text = io.StringIO()
    with svg_figure(text, len(names)) as axes:
        for name, panel in zip(names, axes, strict=True):
            lines(panel, {label: thinned(measured.get(name, [])) for label, measured in found.items()})
            plain_axes(panel, "training loss" if name == "loss" else f"{name} on the dev set", "step", "")
    return text.getvalue()


def thinned(points: Points, most: int = _MOST_POINTS) -> Points:
    """At most `most` points, each the mean of as many neighbours."""
    size = -(-len(points) // most)
    groups = [points[start : start + size] for start in range(0, len(points), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def is_number(value: object) -> bool:
    """Whether a value that was read from a file is a number; nan and truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
