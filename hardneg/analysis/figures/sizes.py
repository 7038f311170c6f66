"""The sizes of table 5 of STAR/ADORE as bars."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.sizes import Size
from hardneg.reporting.figure import bar_width, bars, figure, plain_axes


def draw_sizes(rows: Sequence[Size], paths: Sequence[Path]) -> None:
    """One bar an index: megabytes on disk, and how much that is of the first."""
    with figure(paths, 1, width=bar_width(len(rows))) as (axes,):
        words = {row.index: f"{row.bytes / 1e6:.3g}\n{row.ratio:.1%}" for row in rows}
        bars(axes, {row.index: row.bytes / 1e6 for row in rows}, words)
        plain_axes(axes, "size on disk, and its share of the first", "", "MB")
