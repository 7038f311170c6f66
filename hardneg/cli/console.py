"""Where the command line prints, and how it shows progress: bars on a terminal, one line a step elsewhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hardneg.progress import Task

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


def stderr_console() -> "Console":
    """The console for everything that is not the answer itself."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def stdout_console() -> "Console":
    """The console for the answer itself: a table's row is one line, unless a terminal is too narrow for it."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1_000
    return console


class _Bar:
    def __init__(self, bars: "RichProgress", task: "TaskID") -> None:
        self._bars, self._task = bars, task

    def advance(self, count: int = 1) -> None:
        self._bars.advance(self._task, count)

    def describe(self, text: str) -> None:
        self._bars.update(self._task, note=text)


class Bars:
    """Progress with rate and time left, on stderr; bars only where that is a terminal."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """A bar that disappears when its work is done."""
        with _make_bars(self._console, unit) as bars:
            started = bars.add_task(title, total=total, completed=done, note="", begun=done)
            yield _Bar(bars, started)

    def note(self, text: str) -> None:
        """One line that stays."""
        self._console.print(f"    {text}", markup=False)


def _make_bars(console: "Console", unit: str) -> "RichProgress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Task as RichTask
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units a second since the bar began, what was done before it not counted."""

        def render(self, task: RichTask) -> Text:
            done = task.completed - task.fields["begun"]
            return Text(f"{done / task.elapsed:.1f} {unit}/s" if task.elapsed and done else "")

    return Progress(
        TextColumn("    {task.description}"),
        BarColumn(28),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def size(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 1:
        return "<1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
