"""Table 4 of STAR/ADORE as bars: how long each method trains."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.costs import Cost
from hardneg.analysis.figures.canvas import figure, plain_axes
from hardneg.evaluation.curve import COLOURS


def draw_costs(rows: Sequence[Cost], paths: Sequence[Path]) -> None:
    """One bar a method: wall time in hours, and how many times faster than the first it is."""
    with figure(paths, 1) as (axes,):
        axes.bar(range(len(rows)), [row.seconds / 3600 for row in rows], color=COLOURS[0], width=0.65)
        for place, row in enumerate(rows):
            told = "unknown" if row.unknown else f"{row.seconds / 3600:.3g} h"
            words = told + (f", {row.speedup:.3g}×" if row.speedup else "")
            above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8}
            axes.annotate(words, (place, row.seconds / 3600), **above)
        axes.set_xticks(range(len(rows)), [row.method for row in rows], rotation=20, ha="right", fontsize=8)
        plain_axes(axes, "training time and speed", "", "wall time (h)")
        axes.margins(y=0.15)
