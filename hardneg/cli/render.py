"""Tables of an evaluation on the terminal: the means of each system, and the paired tests."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.evaluation.metrics_json import Measured

_FIGURES = 76
"""Columns that the figures of a paired test take."""


def metrics_tables(console: "Console", content: Mapping[str, Any]) -> None:
    """Prints what a metrics file holds; `content` is its JSON."""
    from hardneg.evaluation.metrics_json import from_json

    measured_tables(console, from_json(content))


def measured_tables(console: "Console", measured: "Measured") -> None:
    """Prints one row a system, best in bold, significant differences marked, and one row a paired test."""
    from hardneg.evaluation.report import Report, estimates
    from hardneg.evaluation.report_content import legend

    systems = {name: estimates(scores) for name, scores in measured.results.items()}
    sizes = [len(values) for scores in measured.results.values() for values in scores.values()]
    report = Report("", systems, max(sizes, default=0), measured.comparisons)
    numbers = _numbers(console, list(systems))
    _systems(console, report, numbers)
    for line in legend(report):
        _print_line(console, line)
    if measured.comparisons:
        _tests(console, report, numbers)


def _numbers(console: "Console", systems: list[str]) -> dict[str, str]:
    """A number for each system, printed with its name, where two of the names would not fit into a line."""
    if _FIGURES + 2 * max(map(len, systems), default=0) <= console.width:
        return {}
    for place, system in enumerate(systems, 1):
        console.print(f"{place}  {system}", markup=False, soft_wrap=True)
    console.print()
    return {system: str(place) for place, system in enumerate(systems, 1)}


def _systems(console: "Console", report: Any, numbers: Mapping[str, str]) -> None:
    from rich.text import Text

    from hardneg.evaluation.report_content import best, bounds, marks_of, number

    table = _table(["" if numbers else "system", *report.metrics], words=1)
    tops = {metric: best(report, metric) for metric in report.metrics}
    for system, estimates in report.systems.items():
        cells = [Text(numbers.get(system, system))]
        for metric, top in tops.items():
            estimate = estimates[metric]
            cell = Text(number(estimate.mean), style="bold" if estimate.mean == top else "")
            cell.append(marks_of(report, system, metric), style="not bold")
            cell.append(f" {bounds(estimate.interval)}" if estimate.interval else "", style="dim not bold")
            cells.append(cell)
        table.add_row(*cells)
    console.print(table)
    _print_line(console, f"Means over {report.queries} queries.")


def _tests(console: "Console", report: Any, numbers: Mapping[str, str]) -> None:
    from rich.text import Text

    from hardneg.evaluation.report_content import TEST_COLUMNS, TESTS_EXPLAINED, test_row

    names = ["", "vs"] if numbers else list(TEST_COLUMNS[1:3])
    for metric in report.metrics:
        table = _table([*names, *TEST_COLUMNS[3:]], words=2)
        for comparison in (c for c in report.comparisons if c.metric == metric):
            _, system, baseline, *figures = test_row(comparison)
            cells = [numbers.get(system, system), numbers.get(baseline, baseline), *figures]
            style = "bold" if comparison.significant() else ""
            table.add_row(*(Text(cell, style=style) for cell in cells))
        console.print(f"\nPaired tests, {metric}", markup=False, style="bold")
        console.print(table)
    _print_line(console, TESTS_EXPLAINED)


def _table(columns: list[str], words: int) -> Any:
    """A table without a frame, whose first `words` columns are words and the rest figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        if place < words:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def _print_line(console: "Console", text: str) -> None:
    console.print(text, markup=False, style="dim", soft_wrap=not console.is_terminal)
