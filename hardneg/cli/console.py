"""Terminal output, with control characters escaped: lines, JSON, tables and progress."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from hardneg import evaluation, report as reports
from hardneg.records import HardnegError
from hardneg.runtime import Lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable  # noqa: TID251


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 controls except tab and newline, bidirectional overrides, and surrogates."""


def visible(text: str) -> str:
    r"""Return text with control characters, bidirectional overrides and surrogates escaped, as in `\x1b`."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


@contextmanager
def flags_named(called: Callable[[str], str]) -> Iterator[None]:
    """Make errors in the block name arguments by the flags that `called` returns, unless they have flags already."""
    try:
        yield
    except HardnegError as error:
        if "called" not in vars(error):
            error.called = called
        raise


@contextmanager
def stream(name: str) -> Iterator[None]:
    """Add a stream's name to system errors in the block that have no file name, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


def say(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Print text on stdout or, with `err`, on stderr; nl: whether to end it with a newline."""
    with stream("standard error" if err else "standard output"):
        typer.echo(visible(str(text)), err=err, nl=nl)  # noqa: TID251


def say_next(steps: Iterable[tuple[str, str]]) -> None:
    """Print next steps on stderr: for each, a sentence and a command."""
    for sentence, command in steps:
        say(f"next: {sentence}\n  {command}", err=True)


def say_json(content: Any, indent: int | None = None) -> None:
    """Print JSON with control characters escaped as in JSON strings, so that it parses to the same content."""
    text = json.dumps(content, indent=indent, ensure_ascii="utf" not in sys.stdout.encoding.lower(), allow_nan=False)
    with stream("standard output"):
        typer.echo(_STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if _STEERING.search(text) else text)  # noqa: TID251


def say_answer(content: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print `content` as JSON if `as_json` is set, else print `lines`."""
    if as_json:
        return say_json(content, indent=1)
    for line in lines:
        say(line)


def aligned(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line per pair, with the pairs aligned as two columns."""
    known = list(pairs)
    width = max((len(first) for first, _ in known), default=0)
    return (f"{first:<{width}}  {second}" for first, second in known)


def tell_left_out(counts: Mapping[str, int]) -> None:
    """Print a line for each reason, with the number of items skipped for it; reasons without items are omitted."""
    for reason, count in counts.items():
        if count:
            say(f"  {reason}: {count}")


def stderr_console() -> "Console":
    """A console on stderr for messages and progress, which does not wrap lines."""
    return _console(stderr=True, soft_wrap=True)


def stdout_console() -> "Console":
    """A console on stdout for results, with one line per table row unless the terminal is too narrow."""
    console = _console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1_000
    return console


def _console(**options: Any) -> "Console":
    from rich.console import Console

    class VisibleConsole(Console):
        """A console that escapes control characters and has no markup."""

        def print(self, *objects: Any, **options: Any) -> None:
            with stream("standard error" if self.stderr else "standard output"):
                super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    return VisibleConsole(highlight=False, markup=False, **options)


def measured_tables(console: "Console", measured: "evaluation.metrics_json.Measured") -> None:
    """Print one row per system, with the best in bold and significant differences marked, and one row per test."""
    content = reports.content.ReportContent.of("", measured)
    section = reports.content.systems_section(content)
    [systems] = section.tables
    room = console.options.update(max_width=10_000)
    notes = console.measure(_rich_table(systems, notes=True), options=room).maximum <= console.width
    print_table(console, systems, notes)
    lines = [line for line in (section.lead, *section.lines) if notes or line not in reports.content.BRACKETS]
    _print_dim(console, *lines)
    for tests in reports.content.tests_by_metric(content):
        console.print()
        print_table(console, tests)
    if measured.comparisons:
        holm = "Paired two-sided tests; p after Holm's correction over all comparisons by the same metric."
        _print_dim(console, holm, reports.content.outcomes_explained(content))


def print_table(console: "Console", rows: "reports.table.Table", notes: bool = False, narrow: str = "") -> None:
    """Print a table without a frame; words wrap in a narrow terminal.

    notes: whether to print the notes of cells. narrow: the name of a column to truncate, so that each row is one line.
    """
    console.print(_rich_table(rows, notes, narrow))


def _rich_table(rows: "reports.table.Table", notes: bool = False, narrow: str = "") -> "RichTable":
    from rich.table import Table  # noqa: TID251
    from rich.text import Text

    shown = Table(box=None, pad_edge=False)
    for number, name in enumerate(visible(reports.table.cell(column).text) for column in rows.columns):
        if number < rows.words:
            whole = bool(narrow) and name != narrow
            shown.add_column(name, no_wrap=whole, overflow="ellipsis" if narrow else "fold")
        else:
            shown.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    lines = [list(map(reports.table.cell, row)) for row in rows.rows]
    signs = [max(len(content.marks) for content in column) for column in zip(*lines, strict=True)]
    for line in lines:
        texts = []
        for content, width in zip(line, signs, strict=True):
            text = Text(visible(content.text), style="bold" if content.strong else "")
            text.append(content.marks.ljust(width), style="not bold")
            text.append(visible(f" {content.note}") if notes and content.note else "", style="dim not bold")
            texts.append(text)
        shown.add_row(*texts)
    return shown


def print_section(console: "Console", section: "reports.table.Section") -> None:
    """Print the tables, the explanation and the lines of a section."""
    for table in section.tables:
        print_table(console, table)
    if section.explained:
        _print_dim(console, section.explained)
    for line in section.lines:
        say(line)


def _print_dim(console: "Console", *lines: str) -> None:
    for line in lines:
        console.print(line, style="dim", soft_wrap=not console.is_terminal)


class Bars:
    """Progress on stderr with rate and remaining time, as bars in a terminal and as lines elsewhere."""

    @cached_property
    def _console(self) -> "Console":
        return stderr_console()

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.note)

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        """Yield a bar that vanishes at the end or, outside a terminal, prints lines; done: items finished earlier."""
        if not self._console.is_terminal:
            with self._lines.task(title, total, unit, done) as bar:
                yield bar
            return
        from rich import progress
        from rich.text import Text

        class Throughput(progress.ProgressColumn):
            def render(self, task: progress.Task) -> Text:
                count = task.completed - done
                return Text(f"{count / task.elapsed:.1f} {unit}/s" if task.elapsed and count else "")

        columns = [
            progress.TextColumn("    {task.description}", markup=False),
            progress.BarColumn(28),
            progress.MofNCompleteColumn(),
            Throughput(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}", markup=False),
        ]
        with progress.Progress(*columns, console=self._console, transient=True) as bars:
            number = bars.add_task(visible(title), total=total, completed=done, note="")
            yield SimpleNamespace(
                advance=lambda count=1: bars.advance(number, count),
                describe=lambda text: bars.update(number, note=visible(text)),
            )

    def note(self, text: str) -> None:
        """Print one indented line on stderr; it stays on the screen when the bars vanish."""
        self._console.print(f"    {text}")
