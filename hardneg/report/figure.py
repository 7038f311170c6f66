"""Figures drawn by matplotlib without a display: canvas, axes and curves; equal numbers give equal files."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

from hardneg.evaluation.metrics import is_metric
from hardneg.records import MissingDependency, UsageError
from hardneg.report.table import Graphic, Table, cell, number
from hardneg.store import replacing

Points = list[tuple[float, float]]
"""(step, value), in the order of the steps."""

History = Sequence[Mapping[str, Any]]
"""Rows of a training log: `step` and, in some rows, `loss` or dev metrics (`ndcg@10`, `dev_ndcg@10`, or in `dev`)."""

COLOURS = ("#3b82c4", "#d9722e", "#3a9d6a", "#b0589f", "#8a7a2f", "#c8464b", "#4aa0ad", "#7d6bd0")
"""Line colours, distinct on white and on near-black; further lines reuse them in order."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Line markers, for readers who cannot distinguish the colours; further lines reuse them in order."""

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control and bidirectional formatting characters, surrogates and noncharacters, which pages may not contain."""

_IN_A_ROW, _DRAWN = 3, 120  # panels; points of a curve
_INK = "#010203"  # replaced by the colour of the page's text
_PAGE_STYLE = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)
_NUMBER = re.compile(r"[-−]?\d[\d,]*\.?\d*(e[-+]?\d+)?")

FORMS = (".png", ".svg", ".pdf")

_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "hardneg", "text.parse_math": False, "font.size": 10.0}
_DATES: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def figure(paths: Sequence[Path], panels: int, height: float = 3.2, width: float = 4.6) -> Iterator[list[Any]]:
    """Yield the axes of each panel; on exit, write the figure to all `paths`.

    panels: the number of panels, at most three in a row. height, width: the size of a panel in inches.

    Raises:
        MissingDependency: matplotlib is not installed.
        UsageError: a path does not end in one of `FORMS`.
    """
    check_forms(paths)
    with _canvas(panels, (width, height)) as (drawn, axes):
        yield axes
        for path in paths:
            with replacing(path) as file:
                drawn.savefig(file, format=path.suffix[1:], metadata=_DATES.get(path.suffix), dpi=150)


@contextmanager
def _canvas(
    panels: int, size: tuple[float, float], style: Mapping[str, Any] | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """Yield an empty figure and its axes; equal drawings give equal bytes."""
    width, height = size
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(f'figures need matplotlib ({error}); pip install "hardneg"') from error
    with rc_context({**_STYLE, **(style or {})}):
        rows = -(-panels // _IN_A_ROW)
        columns = -(-panels // rows)
        drawn = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, [drawn.add_subplot(rows, columns, at) for at in range(1, panels + 1)]


def graphic(
    name: str, title: str, description: str, caption: str, draw: Callable[[Any], None], height: float = 2.8
) -> Graphic:
    """Return an SVG figure for a page, with its text and axes in the colour of the page's text.

    name: a prefix for the figure's ids, unique in the page. title, description: texts for screen readers. draw: a
    function that draws on the axes it is given. height: the height in inches; the width is 7.
    """
    with warnings.catch_warnings(), _canvas(1, (7.0, height), _PAGE_STYLE) as (drawn, (axes,)):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        draw(axes)
        written = StringIO()
        drawn.savefig(written, format="svg", transparent=True, metadata=_DATES[".svg"])
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", CONTROLS.sub("\ufffd", written.getvalue()), flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", text[text.index("<svg") :]).replace(_INK, "currentColor")
    title, description = escape(_clean(title)), escape(_clean(description))
    head = f'<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>'
    labels = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    (box,) = re.findall(r'viewBox="[^"]*"', text)
    opened = f'<svg class="drawn" {labels} width="100%" {box} xmlns="http://www.w3.org/2000/svg" '
    opened += f'xmlns:xlink="http://www.w3.org/1999/xlink">{head}'
    return Graphic(opened + text[text.index(">") + 1 :].strip(), caption)


def _clean(text: str) -> str:
    return CONTROLS.sub("\ufffd", " ".join(text.split()))


def fitted(text: str, most: int = 30) -> str:
    """Return a text on one line; if it is longer than `most` characters, an ellipsis replaces its middle."""
    text, kept = _clean(text), most - 1
    return text if len(text) <= most else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def check_forms(paths: Sequence[Path]) -> None:
    """Raise UsageError for a path that does not end in one of `FORMS`."""
    for path in paths:
        if path.suffix not in FORMS:
            raise UsageError(f"{path}: must end in one of {', '.join(FORMS)}")


def plain_axes(axes: Any, title: str, x: str, y: str) -> None:
    """Set the title and the axis labels, remove the top and right spines, and draw a light grid."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.2, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def bar_width(bars: int) -> float:
    """Return the width in inches of a panel with the given number of bars, at least 4.6."""
    return max(4.6, 0.9 + 0.62 * bars)


def bars(axes: Any, values: Mapping[str, float], words: Mapping[str, str]) -> None:
    """Draw each label's value as a bar from zero, with the label's text in `words` above the bar."""
    axes.bar(range(len(values)), list(values.values()), color=COLOURS[0], width=0.65)
    for position, (label, value) in enumerate(values.items()):
        look = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8}
        axes.annotate(words[label], (position, value), **look)
    axes.set_xticks(range(len(values)), list(values), rotation=20, ha="right", fontsize=8)
    axes.margins(y=0.15)


def lines(axes: Any, series: Mapping[str, Points]) -> None:
    """Draw a line with at most 20 markers for each label that has points, and a legend.

    A label that begins with an underscore is shown after a space; matplotlib would leave it out of the legend.
    """
    for place, (label, points) in enumerate(series.items()):
        if points:
            look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
            look |= {"markersize": 4, "linewidth": 1.6, "markevery": -(-len(points) // 20)}
            axes.plot(*zip(*points, strict=True), label=" " * label.startswith("_") + fitted(label, 40), **look)
    if any(series.values()):
        axes.legend(frameon=False, fontsize=8)


def draw_table(table: Table, drawn: slice, across: int | None, paths: Sequence[Path]) -> None:
    """Draw the columns `drawn` of a table into a figure, as bars or lines, and write the figure to all `paths`.

    across: the number of the column on the x axis. If it is None, each column has a panel of bars. If it is 0, one
    panel has a line for each column. Otherwise, each column has a panel with a line for each text in the first column.
    """
    names = [cell(name).text for name in table.columns]
    rows = [[cell(each).text for each in row] for row in table.rows]
    columns = range(len(names))[drawn]
    if across is None:
        with figure(paths, len(columns), width=bar_width(len(rows))) as panels:
            for axes, column in zip(panels, columns, strict=True):
                texts = {", ".join(row[: table.words]): row[column] for row in rows}
                bars(axes, {label: _number(text) or 0.0 for label, text in texts.items()}, texts)
                plain_axes(axes, names[column], "", "")
        return
    series: dict[str, dict[str, Points]] = {names[column] if across else "": {} for column in columns}
    for column in columns:
        for row in rows:
            x, y = _number(row[across]), _number(row[column])
            panel, line = (names[column], row[0]) if across else ("", names[column])
            series[panel].setdefault(line, []).extend([] if x is None or y is None else [(x, y)])
    with figure(paths, len(series)) as panels:
        for axes, (panel, named) in zip(panels, series.items(), strict=True):
            lines(axes, {line: sorted(points) for line, points in named.items()})
            plain_axes(axes, panel, names[across], "")


def _number(text: str) -> float | None:
    """Return the first number in a cell's text, or None."""
    found = _NUMBER.search(text)
    return float(found[0].replace(",", "").replace("−", "-")) if found else None


def measurements(history: History) -> dict[str, Points]:
    """Return the points (step, value) of the loss and of each dev metric, by name; rows without a step are left out."""
    curves: dict[str, Points] = {"loss": []}
    for row in history:
        flat = {**row, **row["dev"]} if isinstance(row.get("dev"), Mapping) else row
        for key, value in flat.items():
            name = re.sub(r"^dev[_/. ]", "", str(key))
            if (name == "loss" or is_metric(name)) and _is_number(value) and _is_number(row.get("step")):
                curves.setdefault(name, []).append((float(row["step"]), float(value)))
    return {name: points for name, points in curves.items() if points}


def mean_history(histories: Sequence[History]) -> list[dict[str, Any]]:
    """Return one history for several seeds: the mean of each value at each step, over the seeds that recorded it."""
    if len(histories) == 1:
        return [dict(row) for row in histories[0]]
    values: dict[float, dict[str, list[float]]] = {}
    for history in histories:
        for name, points in measurements(history).items():
            for step, value in points:
                values.setdefault(step, {}).setdefault(name, []).append(value)
    return [{"step": step, **{name: fmean(each) for name, each in values[step].items()}} for step in sorted(values)]


def learning_graphics(histories: Mapping[str, History]) -> list[Graphic]:
    """Return a figure of the loss and one of the first dev metric, if recorded, with a line for each model."""
    parts = {label: measurements(history) for label, history in histories.items()}
    names = list(dict.fromkeys(name for measured in parts.values() for name in measured))
    graphics = []
    shown = [name for name in names if name == "loss"] + [name for name in names if name != "loss"][:1]
    for row, name in enumerate(shown):
        title = "Training loss" if name == "loss" else f"{name} on the dev set"
        curves = {label: _thinned(measured[name]) for label, measured in parts.items() if name in measured}
        ends = (f"{label}: {number(points[0][1])} to {number(points[-1][1])}" for label, points in curves.items())

        def draw(axes: Any, curves: Mapping[str, Points] = curves) -> None:
            lines(axes, curves)
            plain_axes(axes, "", "step", "")

        graphics.append(graphic(f"learning-{row}", title, f"{'; '.join(ends)}.", f"{title} by step.", draw))
    return graphics


def _thinned(points: Points) -> Points:
    """Return at most `_DRAWN` points, each the mean of a block of neighbours."""
    size = -(-len(points) // _DRAWN)
    groups = [points[start : start + size] for start in range(0, len(points), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
