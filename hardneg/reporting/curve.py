"""The training curve: loss and dev metrics by step, as an SVG that fits light and dark pages."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.evaluation.metrics import is_metric
from hardneg.reporting.figure import COLOURS, Points, svg_figure

History = Sequence[Mapping[str, Any]]
"""The trainer's rows: `step`, in some `loss` or dev metrics (`ndcg@10`, `dev_ndcg@10`, or under `dev`)."""

_INK = "#010203"
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


def panels(histories: Mapping[str, History]) -> list[str]:
    """What there is to draw, one panel each: the loss, then the first dev metric of any history."""
    names = dict.fromkeys(name for history in histories.values() for name in measurements(history))
    metrics = [name for name in names if name != "loss"]
    return (["loss"] if "loss" in names else []) + metrics[:1]


def curve_svg(histories: Mapping[str, History]) -> str:
    """One line a model and one panel a measurement; no legend: model i is drawn in colour i of `COLOURS`.

    Axes and letters take the colour of the page's text. Empty where there is nothing to draw; equal histories
    give equal text.
    """
    names = panels(histories)
    if not names:
        return ""
    text = io.StringIO()
    with svg_figure(text, len(names)) as axes:
        for name, panel in zip(names, axes, strict=True):
            _draw(panel, name, histories)
    return _embeddable(text.getvalue(), width=31 * len(names))


def _draw(axes: Any, name: str, histories: Mapping[str, History]) -> None:
    """One panel."""
    for place, history in enumerate(histories.values()):
        points = thinned(measurements(history).get(name, []))
        if points:
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) <= 40 else ""
            axes.plot(steps, values, color=COLOURS[place % len(COLOURS)], marker=marker, markersize=3.5, linewidth=1.8)
    axes.set_title("training loss" if name == "loss" else f"{name} on the dev set", color=_INK, fontsize=10, loc="left")
    axes.set_xlabel("step", color=_INK)
    axes.tick_params(colors=_INK, length=3)
    axes.grid(color=_INK, alpha=0.13, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)
        spine.set_alpha(0.5)


def thinned(points: Points, most: int = _MOST_POINTS) -> Points:
    """At most `most` points, each the mean of as many neighbours."""
    size = -(-len(points) // most)
    groups = [points[start : start + size] for start in range(0, len(points), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def _embeddable(svg: str, width: int) -> str:
    """Only the svg element, in the page's text colour, up to `width` rem wide, with nothing to fetch."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head, _, rest = body.partition(">")
    view_box = re.search(r'viewBox="[^"]*"', head)
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    shape = f'{view_box.group() if view_box else ""} style="max-width: {width}rem"'
    opening = f'<svg {names} {shape} class="curve" role="img"'
    return f"{opening}>{rest}".replace(_INK, "currentColor").strip()


def is_number(value: object) -> bool:
    """Whether a value that was read from a file is a number; nan and truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
