"""Table 3 of ANCE as bars: the time of one document, query, step or refresh."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.operations import words
from hardneg.reporting.figure import bar_width, bars, figure, plain_axes


def draw_operations(rows: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> None:
    """One bar an operation of known time, on a logarithmic axis; `rows` as JSON has them."""
    known = {row["operation"]: row for row in rows if row["milliseconds"]}
    with figure(paths, 1, width=bar_width(len(known))) as (axes,):
        values = {name: row["milliseconds"] for name, row in known.items()}
        bars(axes, values, {name: words(row).replace(" a ", "\na ") for name, row in known.items()})
        if known:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")
        plain_axes(axes, "time of one unit", "", "milliseconds")
