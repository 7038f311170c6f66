"""Figure 4 of STAR/ADORE: overlap with the real hard negatives, and effectiveness, by training step."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.drift_curves import Curve
from hardneg.analysis.figures.canvas import figure, lines, plain_axes

_LABELS = {
    "overlap": ("overlap with the real hard negatives", "overlap (share)"),
    "best_rank": ("best rank of the fixed negatives", "rank (mean over queries)"),
    "best_rank_median": ("best rank of the fixed negatives", "rank (median over queries)"),
}
_RANKS = ("best_rank", "best_rank_median")
"""On a logarithmic axis where they change by a factor of ten."""


def draw_drift(curves: Mapping[str, Mapping[str, Curve]], paths: Sequence[Path]) -> None:
    """One panel a measurement, one line a model; `curves` has the measurements of each model by name."""
    names = list(dict.fromkeys(name for measured in curves.values() for name in measured))
    with figure(paths, max(1, len(names))) as panels:
        for axes, name in zip(panels, names, strict=False):
            _panel(axes, name, {label: list(measured.get(name, [])) for label, measured in curves.items()})


def _panel(axes: Any, name: str, series: dict[str, Curve]) -> None:
    title, unit = _LABELS.get(name, (f"{name} of the watched queries", name))
    lines(axes, series)
    plain_axes(axes, title, "training step", unit)
    values = [value for points in series.values() for _, value in points]
    if name in _RANKS and max(values) >= 10 * min(values) > 0:
        axes.set_yscale("log", subs=[2, 5])
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("{x:,g}")
    if name == "overlap":
        axes.set_ylim(0, 1)
