"""What the commands of all analyses share: options, a table or JSON, figures' names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hardneg.cli.printing import say_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="PATH", help="Draw a figure: .png, .svg or .pdf.")]
Topics = Annotated[
    Path | None, typer.Option("--queries", help="Queries: BEIR's queries.jsonl, id and text by tab, or TREC topics.")
]


def check_plot(plot: Path | None) -> None:
    """Refuses a bad name before any work."""
    if plot:
        from hardneg.analysis.figures.canvas import check_forms

        check_forms([plot])


def show(content: Any, as_json: bool, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints JSON, or a table."""
    if as_json:
        say_json(content)
        return
    from hardneg.cli.console import stdout_console, table

    shown = table()
    for place, column in enumerate(columns):
        shown.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    stdout_console().print(shown)
