"""Systems of an evaluation by two axes, such as what an index was trained on and what was searched."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hardneg.analysis.base import Analysis, Option, estimates_of
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.records.errors import UsageError
from hardneg.records.wording import suggestion
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.report.table import Table


class Matrix(Analysis):
    """Show an evaluation's systems as a table of two axes; cells may be missing.

    Example: hardneg analyze matrix runs/adore-pq/metrics.json --cell "24:flat=24 → flat" --cell "flat:flat=flat → flat"
    """

    name = "matrix"
    title = "matrix"
    paper = "STAR/ADORE, Table 3"

    evaluation: Annotated[Name, Reference(("metrics",)), Option(metavar="METRICS.JSON", argument=True)] = Field(
        description="The metrics.json of a recipe."
    )
    rows: Annotated[dict[Name, dict[Name, Name]], Option("cell", metavar="ROW:COLUMN=SYSTEM")] = Field(
        min_length=1, description="The system whose metric stands in a cell."
    )
    metric: Name | None = Field(None, description="By default the first one that was evaluated.")
    axes: Annotated[tuple[str, str], Option("axis")] = Field(
        ("", ""), description="The name of the rows, then that of the columns."
    )
    figure: Annotated[Literal["heatmap", "lines"], Option("form")] = Field("heatmap", description="The figure's form.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """The means of the systems by rows and columns; see `matrix`."""
        metric, systems = estimates_of(inputs, self.metric)
        try:
            cells = matrix(self.rows, {label: results.mean for label, results in systems.items()})
        except UsageError as error:
            raise UsageError(f"{inputs.location('rows')}.{error}") from None
        return {"metric": metric, **cells, "axes": list(self.axes)}

    def table(self, results: Any) -> Table:
        """As it is."""
        rows = [
            [row, *("–" if value is None else f"{value:.4f}" for value in values)]
            for row, values in zip(results["rows"], results["values"], strict=True)
        ]
        return Table((results["metric"], *results["columns"]), rows)

    def explain(self, results: Any) -> str:
        """What the axes are, where that is told."""
        down, across = results["axes"]
        return f"{results['metric']}; rows: {down}; columns: {across}." if down and across else ""

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """A heatmap with the numbers in it, or a line a row over the columns."""
        rows, columns = results["rows"], results["columns"]
        down, across = results["axes"]
        title = f"{results['metric']}: {down} by {across}" if down and across else results["metric"]
        width, height = max(4.6, 1.6 + 0.8 * len(columns)), max(3.2, 1.2 + 0.4 * len(rows))
        with figure(paths, 1, height if self.figure == "heatmap" else 3.2, width) as (axes,):
            if self.figure == "lines":
                lines(axes, {row: _points(values) for row, values in zip(rows, results["values"], strict=True)})
                plain_axes(axes, title, across, results["metric"])
            else:
                _heatmap(axes, rows, results["values"])
                plain_axes(axes, title, across, down)
                axes.grid(visible=False)
            axes.set_xticks(range(len(columns)), columns, fontsize=8)


def matrix(cells: Mapping[str, Mapping[str, str]], means: Mapping[str, float]) -> dict[str, Any]:
    """The means of the systems that `cells` names: row to column to label.

    `rows` and `columns` in order of appearance; `values`: a list a row, a mean a column, None where there is no such
    system.

    Raises:
        UsageError: a label that has no mean.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 3.
    """
    for row, named in cells.items():
        for column, label in named.items():
            if label not in means:
                raise UsageError(f"{row}.{column}: no system {label!r} was evaluated{suggestion(label, means)}")
    columns = list(dict.fromkeys(column for named in cells.values() for column in named))
    values = [[means[named[column]] if column in named else None for column in columns] for named in cells.values()]
    return {"rows": list(cells), "columns": columns, "values": values}


def _points(values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(float(position), value) for position, value in enumerate(values) if value is not None]


def _heatmap(axes: Any, rows: Sequence[str], values: Sequence[Sequence[float | None]]) -> None:
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    shades = [[float("nan") if value is None else value for value in row] for row in values]
    axes.imshow(shades, cmap="Blues", vmin=low - (high - low) / 3, vmax=high, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            dark = value is not None and value > low + (high - low) * 0.5
            words = "–" if value is None else f"{value:.4f}"
            axes.text(x, y, words, ha="center", va="center", fontsize=9, color="white" if dark else "#222222")
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
