"""Tables of an evaluation on the terminal: the means of each system, and the paired tests."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hardneg.cli.printing import visible
from hardneg.counting import counted

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.evaluation.metrics_json import Measured

_INTERVAL = 26
"""Columns that a mean with its interval and marks takes."""


def metrics_tables(console: "Console", content: Mapping[str, Any]) -> None:
    """Prints what a metrics file holds; `content` is its JSON."""
    from hardneg.evaluation.metrics_json import from_json

    measured_tables(console, from_json(content))


def measured_tables(console: "Console", measured: "Measured") -> None:
    """Prints one row a system, best in bold, significant differences marked, and one row a paired test."""
    from hardneg.reporting.content import legend
    from hardneg.reporting.report import Report, estimates

    systems = {name: estimates(scores) for name, scores in measured.results.items()}
    sizes = [len(values) for scores in measured.results.values() for values in scores.values()]
    report = Report("", systems, max(sizes, default=0), measured.comparisons, marks=measured.marks)
    shown = _systems(console, report)
    for line in legend(report):
        if shown or not line.startswith("Brackets"):
            _print_line(console, line)
    if measured.comparisons:
        _tests(console, report)


def _systems(console: "Console", report: Any) -> bool:
    """Prints the means; whether their intervals fitted beside them."""
    from rich.text import Text

    from hardneg.reporting.content import best, bounds, marks_of, number

    names = max(map(len, report.systems), default=0)
    wide = names + _INTERVAL * len(report.metrics) <= console.width
    table = _table(["system", *report.metrics])
    tops = {metric: best(report, metric) for metric in report.metrics}
    for system, estimates in report.systems.items():
        cells = [Text(visible(system))]
        for metric, top in tops.items():
            estimate = estimates[metric]
            cell = Text(number(estimate.mean), style="bold" if estimate.mean == top else "")
            cell.append(marks_of(report, system, metric).ljust(2), style="not bold")
            cell.append(f" {bounds(estimate.interval)}" if wide and estimate.interval else "", style="dim not bold")
            cells.append(cell)
        table.add_row(*cells)
    console.print(table)
    _print_line(console, f"Means over {counted(report.queries, 'query')}.")
    return wide


def _tests(console: "Console", report: Any) -> None:
    from rich.text import Text

    from hardneg.reporting.content import difference_bounds, p_value, signed

    for metric in report.metrics:
        table = _table([metric, "difference", "95 % interval", "t-test p", "randomised p"])
        for c in (c for c in report.comparisons if c.metric == metric):
            figures = [signed(c.difference), difference_bounds(c), p_value(c.t_holm), p_value(c.randomisation_holm)]
            style = "bold" if c.significant() else ""
            table.add_row(*(Text(visible(cell), style=style) for cell in [f"{c.system} − {c.baseline}", *figures]))
        console.print()
        console.print(table)
    _print_line(console, "Paired, two-sided, p after Holm's correction over all comparisons by the same metric.")


def _table(columns: list[str]) -> Any:
    """A table without a frame, whose first column is words and the rest figures."""
    from hardneg.cli.console import table

    made = table()
    for place, column in enumerate(columns):
        if place:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def _print_line(console: "Console", text: str) -> None:
    console.print(text, style="dim", soft_wrap=not console.is_terminal)
