"""What the commands of all analyses share: options, a table or JSON, figures' names."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from hardneg.cli.options import WRITTEN
from hardneg.cli.outputs import Target, store_outputs
from hardneg.cli.printing import say_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace what is there, whatever it is, unless it is read.", rich_help_panel=WRITTEN
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="PATH", help="Draw a figure: .png, .svg or .pdf.", rich_help_panel=WRITTEN),
]
Topics = Annotated[
    Path | None, typer.Option("--queries", help="Queries: BEIR's queries.jsonl, id and text by tab, or TREC topics.")
]


def check_plot(plot: Path | None, overwrite: bool, *given: Path | Sequence[Path] | None) -> None:
    """Refuses, before any work, a figure that cannot be drawn, or that would replace what is no figure of hardneg's.

    Args:
        plot: the figure's file.
        overwrite: whether it may be replaced, whatever it is.
        given: all files and folders that the command reads.
    """
    if plot:
        from hardneg.reporting.figure import check_forms

        check_forms([plot])
        reads = [path for each in given if each for path in ([each] if isinstance(each, Path) else each)]
        store_outputs("analyze", [Target(plot)], [_read(path) for path in reads], overwrite).check()


def drawing(plot: Path) -> AbstractContextManager[None]:
    """Draws, in the block: the figure is known afterwards as a result of hardneg."""
    return store_outputs("analyze", [Target(plot)], [], True).laid_out()


def _read(path: Path) -> Path:
    """What is read of a path: of a run folder, which may hold figures too, its lock file."""
    from hardneg.layout import LOCK

    return path / LOCK if (path / LOCK).is_file() else path


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
