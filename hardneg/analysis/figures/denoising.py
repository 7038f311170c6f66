"""Figures of filters of negatives: what they drop by rank, and how well they find hidden positives."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.reporting.figure import COLOURS, Points, figure, lines, plain_axes

_SIDES = ((0, 8), (0, -8), (12, 0), (-12, 0))
"""Where a point's threshold stands, in points from it."""


def draw_denoising(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Figure 5 of RocketQA: by rank, the share that is dropped by score, one line a filter."""
    series: dict[str, Points] = {
        label: [(rank, 100 * share) for rank, share in enumerate(found["filtered"], 1) if share is not None]
        for label, found in content["filters"].items()
    }
    with figure(paths, 1, width=5.4) as (axes,):
        lines(axes, series)
        plain_axes(axes, "candidates dropped by their score", "rank", "share (%)")
        axes.set_ylim(bottom=0)


def draw_planted(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One line a filter and run of scores, a point a threshold: hidden positives found against what that costs.

    The first panel says the thresholds.
    """
    several = len(content["scores"]) > 1
    filters = {
        f"{name}, {label}" if several else name: points
        for label, found in content["scores"].items()
        for name, points in found["filters"].items()
    }
    with figure(paths, 2) as (costs, precision):
        lines(costs, {name: _curve(points, "kept", "recall") for name, points in filters.items()})
        for place, points in enumerate(filters.values()):
            _say_thresholds(costs, points, place)
        plain_axes(costs, "hidden positives", "true negatives kept (%)", "hidden positives removed (%)")
        lines(precision, {name: _curve(points, "recall", "precision") for name, points in filters.items()})
        plain_axes(precision, "precision", "hidden positives removed (%)", "hidden, of what is removed (%)")


def _say_thresholds(axes: Any, points: Sequence[Mapping[str, float | None]], place: int) -> None:
    """Beside each point, on another side of each line."""
    look = {"textcoords": "offset points", "xytext": _SIDES[place % len(_SIDES)], "ha": "center", "va": "center"}
    for point in points:
        if point["kept"] is not None and point["recall"] is not None:
            where = (100 * point["kept"], 100 * point["recall"])
            axes.annotate(f"{point['threshold']:g}", where, color=COLOURS[place % len(COLOURS)], fontsize=6, **look)


def _curve(points: Sequence[Mapping[str, float | None]], across: str, up: str) -> Points:
    shares = sorted((point[across], point[up]) for point in points if None not in (point[across], point[up]))
    return [(100 * x, 100 * y) for x, y in shares if x is not None and y is not None]
