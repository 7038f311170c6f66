"""Figures of first stages: recall by depth, quality by the number of candidates, recall by the size of vectors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.reporting.figure import figure, lines, plain_axes


def draw_depths(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One line a run, recall by depth."""
    cuts = content["depths"]
    series = {label: sorted(zip(cuts, row["recall"], strict=True)) for label, row in content["runs"].items()}
    with figure(paths, 1) as (axes,):
        lines(axes, series)
        _doubling(axes, cuts)
        plain_axes(axes, "recall by depth", "documents", "recall")


def draw_candidates(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Figure 2 of CoRT at TREC: quality by the number of candidates, and their recall, one line a pipeline."""
    with figure(paths, 2) as panels:
        for axes, (name, title) in zip(panels, (("quality", content["metric"]), ("recall", "recall")), strict=True):
            found = content["runs"].items()
            lines(axes, {label: [(row["candidates"], row[name]) for row in rows] for label, rows in found})
            _doubling(axes, content["counts"])
            plain_axes(axes, f"{title} by the number of candidates", "candidates", title)


def draw_dimensions(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One line a series, a metric by the size of vectors."""
    series = {label: [(size, value) for size, value in points] for label, points in content["runs"].items()}
    with figure(paths, 1) as (axes,):
        lines(axes, series)
        _doubling(axes, sorted({size for points in series.values() for size, _ in points}))
        plain_axes(axes, f"{content['metric']} by the size of vectors", "dimensions", content["metric"])


def _doubling(axes: Any, places: Sequence[int]) -> None:
    """A logarithmic axis with these numbers below it."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(places), [f"{place:,}" for place in places])
    axes.minorticks_off()
