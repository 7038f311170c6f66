"""Figures by matplotlib: a canvas without a screen, colours, axes, equal files for equal numbers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.records.errors import MissingDependency, UsageError
from hardneg.store.atomic_write import replacing

Points = list[tuple[float, float]]
"""(step, value), in the order of the steps."""

COLOURS = ("#3b82c4", "#d9722e", "#3a9d6a", "#b0589f", "#8a7a2f", "#c8464b", "#4aa0ad", "#7d6bd0")
"""Line colours that differ on white and on near-black; after the last comes the first again."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers of lines, for readers who do not see colours."""

_IN_A_ROW = 3

FORMS = (".png", ".svg", ".pdf")

_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "hardneg", "text.parse_math": False, "font.size": 10.0}
_DATES: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def figure(paths: Sequence[Path], panels: int, height: float = 3.2, width: float = 4.6) -> Iterator[list[Any]]:
    """Yield the axes of `panels` panels, at most three in a row; on leaving, write the figure to all `paths`.

    height, width: of a panel, in inches.

    Raises:
        MissingDependency: matplotlib is not installed.
        UsageError: a path has another ending than `FORMS`.
    """
    check_forms(paths)
    with _canvas(panels, height, width) as (drawn, axes):
        yield axes
        for path in paths:
            with replacing(path) as file:
                drawn.savefig(file, format=path.suffix[1:], metadata=_DATES.get(path.suffix), dpi=150)


@contextmanager
def _canvas(panels: int, height: float, width: float) -> Iterator[tuple[Any, list[Any]]]:
    """An empty figure and its axes; equal drawings give equal bytes."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(f'figures need matplotlib ({error}); pip install "hardneg"') from error
    with rc_context(_STYLE):
        rows = -(-panels // _IN_A_ROW)
        columns = -(-panels // rows)
        drawn = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, [drawn.add_subplot(rows, columns, number) for number in range(1, panels + 1)]


def check_forms(paths: Sequence[Path]) -> None:
    """Raise UsageError for a path without one of the endings `FORMS`."""
    for path in paths:
        if path.suffix not in FORMS:
            raise UsageError(f"{path}: a figure's name ends in {', '.join(FORMS)}")


def plain_axes(axes: Any, title: str, x: str, y: str) -> None:
    """Set title and labels, two spines and a light grid."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.2, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def bar_width(bars: int) -> float:
    """Return the width in inches of a panel with so many bars."""
    return max(4.6, 0.9 + 0.62 * bars)


def bars(axes: Any, values: Mapping[str, float], words: Mapping[str, str]) -> None:
    """Draw a bar for each label, from zero, with words above it."""
    axes.bar(range(len(values)), list(values.values()), color=COLOURS[0], width=0.65)
    for position, (label, value) in enumerate(values.items()):
        look = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8}
        axes.annotate(words[label], (position, value), **look)
    axes.set_xticks(range(len(values)), list(values), rotation=20, ha="right", fontsize=8)
    axes.margins(y=0.15)


def by_measurement(curves: Mapping[str, Mapping[str, Points]]) -> dict[str, dict[str, Points]]:
    """Turn curves by label and measurement into curves by measurement and label; a missing one is empty."""
    names = dict.fromkeys(name for measured in curves.values() for name in measured)
    return {name: {label: list(measured.get(name, [])) for label, measured in curves.items()} for name in names}


def decades(axes: Any, series: Mapping[str, Points]) -> None:
    """Make the axis logarithmic where values are positive and differ by a factor of ten."""
    values = [value for points in series.values() for _, value in points]
    if values and max(values) >= 10 * min(values) > 0:
        axes.set_yscale("log", subs=[2, 5])
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("{x:,g}")


def lines(axes: Any, series: Mapping[str, Points]) -> None:
    """Draw a line for each label, with its own colour and marker (at most 20 on a line), and a legend.

    matplotlib keeps from the legend what begins with an underscore.
    """
    for number, (label, points) in enumerate(series.items()):
        if points:
            x, y = zip(*points, strict=True)
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            axes.plot(
                x,
                y,
                label=f" {label}" if label.startswith("_") else label,
                markersize=4,
                linewidth=1.6,
                markevery=-(-len(x) // 20),
                **look,
            )
    if any(series.values()):
        axes.legend(frameon=False, fontsize=8)
