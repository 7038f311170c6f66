"""Table 4 of STAR/ADORE as bars: how long each method trains."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.costs import Cost
from hardneg.analysis.figures.canvas import bar_width, bars, figure, plain_axes


def draw_costs(rows: Sequence[Cost], paths: Sequence[Path]) -> None:
    """One bar a method: wall time in hours, and how many times faster than the first it is."""
    with figure(paths, 1, width=bar_width(len(rows))) as (axes,):
        bars(axes, {row.method: row.seconds / 3600 for row in rows}, {row.method: _words(row) for row in rows})
        plain_axes(axes, "training time and speed", "", "wall time (h)")


def _words(row: Cost) -> str:
    told = "unknown" if row.unknown else f"{row.seconds / 3600:.3g} h"
    return told + (f"\n{row.speedup:.3g}×" if row.speedup else "")
