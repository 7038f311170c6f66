"""Table 3 of STAR/ADORE as a heatmap, or as lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.matrix import Matrix
from hardneg.reporting.figure import figure, lines, plain_axes


def draw_matrix(found: Matrix, form: str, paths: Sequence[Path]) -> None:
    """A heatmap with the numbers in it, or (form `lines`) a line a row over the columns."""
    width, height = max(4.6, 1.6 + 0.8 * len(found.columns)), max(3.2, 1.2 + 0.4 * len(found.rows))
    with figure(paths, 1, height if form == "heatmap" else 3.2, width) as (axes,):
        if form == "lines":
            lines(axes, {row: _points(values) for row, values in zip(found.rows, found.values, strict=True)})
            plain_axes(axes, _title(found), found.axes[1], found.metric)
        else:
            _heatmap(axes, found)
            plain_axes(axes, _title(found), found.axes[1], found.axes[0])
            axes.grid(visible=False)
        axes.set_xticks(range(len(found.columns)), list(found.columns), fontsize=8)


def _title(found: Matrix) -> str:
    rows, columns = found.axes
    return f"{found.metric}: {rows} by {columns}" if rows and columns else found.metric


def _points(values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(float(place), value) for place, value in enumerate(values) if value is not None]


def _heatmap(axes: Any, found: Matrix) -> None:
    known = [value for row in found.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    shades = [[float("nan") if value is None else value for value in row] for row in found.values]
    axes.imshow(shades, cmap="Blues", vmin=low - (high - low) / 3, vmax=high, aspect="auto")
    for y, row in enumerate(found.values):
        for x, value in enumerate(row):
            dark = value is not None and value > low + (high - low) * 0.5
            words = "–" if value is None else f"{value:.4f}"
            axes.text(x, y, words, ha="center", va="center", fontsize=9, color="white" if dark else "#222222")
    axes.set_yticks(range(len(found.rows)), list(found.rows), fontsize=8)
