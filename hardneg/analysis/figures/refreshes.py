"""Figure 5 of ANCE: training loss and dev metric by step, with the steps that went over to new negatives marked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardneg.analysis.history_tables import dev_metrics
from hardneg.reporting.figure import COLOURS, figure, lines, plain_axes


def draw_refreshes(found: Mapping[str, Mapping[str, Any]], paths: Sequence[Path]) -> None:
    """Two panels, the loss and the first dev metric, one line a training; a bar across its line is a refresh."""
    names = ["loss", *dev_metrics(found)[:1]]
    with figure(paths, len(names)) as panels:
        for axes, name in zip(panels, names, strict=True):
            lines(axes, {label: each["curves"].get(name, []) for label, each in found.items()})
            for place, each in enumerate(found.values()):
                _mark(axes, each["curves"].get(name, []), each["refreshes"], COLOURS[place % len(COLOURS)])
            title = "training loss" if name == "loss" else f"{name} on the dev set"
            plain_axes(axes, f"{title}; bars: refreshes", "training step", name)


def _mark(axes: Any, curve: Sequence[tuple[float, float]], taken_up: Sequence[tuple[int, int]], colour: str) -> None:
    """A bar at each refresh that the curve reaches."""
    if not curve:
        return
    steps, values = zip(*curve, strict=True)
    places = [step for step, _ in taken_up if steps[0] <= step <= steps[-1]]
    axes.plot(places, np.interp(places, steps, values), "|", color=colour, markersize=11, markeredgewidth=1.4)
