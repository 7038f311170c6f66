"""What all figures share: a canvas without a screen, colours, axes, and files that are equal for equal numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.errors import MissingDependency, UsageError
from hardneg.evaluation.curve import COLOURS
from hardneg.replacing import replacing

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""One a line, beside its colour: lines can be told apart without seeing colours."""

FORMS = (".png", ".svg", ".pdf")

_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "hardneg", "text.parse_math": False, "font.size": 10.0}
_DATES: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def figure(paths: Sequence[Path], panels: int, height: float = 3.2) -> Iterator[list[Any]]:
    """The axes of `panels` panels beside each other, each 4.6 inches wide; on leaving, they are written to all `paths`.

    Raises:
        MissingDependency: matplotlib is not installed.
        UsageError: a path ends in no known form.
    """
    check_forms(paths)
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(f'figures need matplotlib ({error}); pip install "hardneg"') from error
    with rc_context(_STYLE):
        drawn = Figure(figsize=(4.6 * panels, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield [drawn.add_subplot(1, panels, place) for place in range(1, panels + 1)]
        for path in paths:
            with replacing(path) as file:
                drawn.savefig(file, format=path.suffix[1:], dpi=150, metadata=_DATES.get(path.suffix))


def check_forms(paths: Sequence[Path]) -> None:
    """Refuses a path whose ending names no form of picture. Raises UsageError."""
    for path in paths:
        if path.suffix not in FORMS:
            raise UsageError(f"{path}: a figure's name ends in {', '.join(FORMS)}")


def plain_axes(axes: Any, title: str, x: str, y: str) -> None:
    """Title and labels, two spines, a light grid behind."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.2, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def lines(axes: Any, series: dict[str, list[tuple[float, float]]]) -> None:
    """One line a label, each with a colour and a marker of its own, and a legend."""
    for place, (label, points) in enumerate(series.items()):
        if points:
            x, y = zip(*points, strict=True)
            look = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
            axes.plot(x, y, label=label, markersize=4, linewidth=1.6, **look)
    if any(series.values()):
        axes.legend(frameon=False, fontsize=8)
