"""Table 4 of STAR/ADORE as bars: how long each method trains."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.costs import Cost
from hardneg.analysis.figures.canvas import figure, plain_axes
from hardneg.evaluation.curve import COLOURS


def draw_costs(rows: Sequence[Cost], paths: Sequence[Path]) -> None:
    """One bar a method, in seconds on a logarithmic axis, with how many times faster than the first it is."""
    with figure(paths, 1) as (axes,):
        axes.bar(range(len(rows)), [row.seconds for row in rows], color=COLOURS[0], width=0.65)
        for place, row in enumerate(rows):
            words = f"{row.speedup:.3g}×" if row.speedup else "unknown"
            axes.annotate(words, (place, row.seconds), (0, 3), textcoords="offset points", ha="center", fontsize=8)
        if any(row.seconds for row in rows):
            axes.set_yscale("log")
        axes.set_xticks(range(len(rows)), [row.method for row in rows], rotation=20, ha="right", fontsize=8)
        plain_axes(axes, "training time, and speed against the first", "", "wall time (s)")
        axes.margins(y=0.15)
