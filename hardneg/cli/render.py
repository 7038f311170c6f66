"""Tables on the terminal, of an evaluation and of whatever else has some."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.evaluation.metrics_json import Measured
    from hardneg.reporting.table import Table


def metrics_tables(console: "Console", content: Mapping[str, Any]) -> None:
    """Prints what a metrics file holds; `content` is its JSON."""
    from hardneg.evaluation.metrics_json import from_json

    measured_tables(console, from_json(content))


def measured_tables(console: "Console", measured: "Measured") -> None:
    """Prints one row a system, best in bold, significant differences marked, and one row a paired test."""
    from hardneg.reporting.content import BRACKETS, ReportContent, systems_section, tests_by_metric

    section = systems_section(ReportContent.of("", measured))
    [table] = section.tables
    notes = _width(table) <= console.width
    print_table(console, table, notes)
    for line in (section.lead, *section.lines):
        if notes or line != BRACKETS:
            _print_line(console, line)
    for table in tests_by_metric(measured.comparisons):
        console.print()
        print_table(console, table)
    if measured.comparisons:
        _print_line(console, "Paired, two-sided, p after Holm's correction over all comparisons by the same metric.")


def print_table(console: "Console", table: "Table", notes: bool = False, narrow: str = "") -> None:
    """Prints a table without a frame: words are folded where the terminal is too narrow for them.

    notes: what stands beside figures is printed too. narrow: the column that is cut instead, so that rows are lines.
    """
    from rich.text import Text

    from hardneg.cli.console import table as empty_table
    from hardneg.cli.printing import visible
    from hardneg.reporting.table import cell

    shown = empty_table()
    for place, name in enumerate(cell(column).text for column in table.columns):
        if place < table.words:
            whole = bool(narrow) and name != narrow
            shown.add_column(name, no_wrap=whole, overflow="ellipsis" if narrow else "fold")
        else:
            shown.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    marked = [
        max((len(cell(row[place]).marks) for row in table.rows), default=0) for place in range(len(table.columns))
    ]
    for row in table.rows:
        texts = []
        for content, signs in zip(map(cell, row), marked, strict=True):
            text = Text(visible(content.text), style="bold" if content.strong else "")
            text.append(content.marks.ljust(signs), style="not bold")
            text.append(f" {content.note}" if notes and content.note else "", style="dim not bold")
            texts.append(text)
        shown.add_row(*texts)
    console.print(shown)


def _width(table: "Table") -> int:
    """The columns of a terminal that a table takes with what stands beside its figures."""
    from rich.cells import cell_len

    from hardneg.reporting.table import Cell, cell

    def width(content: Cell) -> int:
        return cell_len(content.text + content.marks) + (1 + len(content.note) if content.note else 0)

    lines = [[width(cell(content)) for content in line] for line in (table.columns, *table.rows)]
    return sum(max(column) + 2 for column in zip(*lines, strict=True))


def _print_line(console: "Console", text: str) -> None:
    console.print(text, style="dim", soft_wrap=not console.is_terminal)
