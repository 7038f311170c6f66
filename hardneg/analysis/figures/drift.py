"""Figure 4 of STAR/ADORE: overlap with the real hard negatives, and effectiveness, by training step."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.history_curves import Curve
from hardneg.reporting.figure import by_measurement, decades, figure, lines, plain_axes

_LABELS = {
    "overlap": ("overlap with the real hard negatives", "overlap (share)"),
    "best_rank": ("best rank of the fixed negatives", "rank (mean over queries)"),
    "best_rank_median": ("best rank of the fixed negatives", "rank (median over queries)"),
}
_RANKS = ("best_rank", "best_rank_median")
"""On a logarithmic axis where they change by a factor of ten."""


def draw_drift(curves: Mapping[str, Mapping[str, Curve]], paths: Sequence[Path]) -> None:
    """One panel a measurement, one line a model; `curves` has the measurements of each model by name."""
    measured = by_measurement(curves)
    with figure(paths, max(1, len(measured))) as panels:
        for axes, (name, series) in zip(panels, measured.items(), strict=False):
            _panel(axes, name, series)


def _panel(axes: Any, name: str, series: dict[str, Curve]) -> None:
    title, unit = _LABELS.get(name, (f"{name} of the watched queries", name))
    lines(axes, series)
    plain_axes(axes, title, "training step", unit)
    if name in _RANKS:
        decades(axes, series)
    if name == "overlap":
        axes.set_ylim(0, 1)
