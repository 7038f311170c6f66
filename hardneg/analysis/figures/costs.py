"""Table 4 of STAR/ADORE as bars: how long each method trains."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.costs import Cost, time_unit
from hardneg.reporting.figure import bar_width, bars, figure, plain_axes


def draw_costs(rows: Sequence[Cost], paths: Sequence[Path]) -> None:
    """One bar a method: wall time, and how many times faster than the first it is."""
    unit, length = time_unit(row.seconds for row in rows)
    with figure(paths, 1, width=bar_width(len(rows))) as (axes,):
        words = {row.method: _words(row, row.seconds / length) for row in rows}
        bars(axes, {row.method: row.seconds / length for row in rows}, words)
        plain_axes(axes, "training time and speed", "", f"wall time ({unit})")


def _words(row: Cost, time: float) -> str:
    told = "unknown" if row.unknown else f"{time:.3g}"
    return told + (f"\n{row.speedup:.3g}×" if row.speedup else "")
