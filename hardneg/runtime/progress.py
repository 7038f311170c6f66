"""Progress reports for long steps, and time spent by operation."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from hardneg.records import duration

EVERY = 10.0
"""Minimum number of seconds between two lines of progress."""


class Task(Protocol):
    """A running progress bar."""

    def advance(self, count: int = 1) -> None:
        """Mark `count` more units as done."""

    def describe(self, text: str) -> None:
        """Show a short text next to the bar, such as the loss."""


class Progress(Protocol):
    """Interface of progress reporters: bars on the command line, `Lines` in a file, or `Silent`."""

    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> AbstractContextManager[Task]:
        """Start a bar with `total` units (None if unknown); `done` units are already finished."""

    def note(self, text: str) -> None:
        """Print a line that stays, such as the number of skipped documents."""


class Silent:
    """A progress reporter that shows nothing and serves as its own task."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """Yield this object as the task."""
        yield self

    def note(self, text: str) -> None:
        """Do nothing."""

    def advance(self, count: int = 1) -> None:
        """Do nothing."""

    describe = note


@dataclass
class Lines:
    """A progress reporter that writes units done, rate and time left, in at most one line every ten seconds.

    note: writes a line. clock: returns seconds. reported: time of the last line, or else of the first task's start.
    """

    note: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    reported: float | None = None

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """Yield a task that reports in lines; its rate excludes the time before the first finished units."""
        self.reported = self.clock() if self.reported is None else self.reported
        yield _LinesTask(self, title, total, unit, done, done)


@dataclass
class _LinesTask:
    lines: Lines
    title: str
    total: int | None
    unit: str
    before: int
    done: int
    note: str = ""
    began: float | None = None

    def advance(self, count: int = 1) -> None:
        self.done += count
        now = self.lines.clock()
        if self.began is None:  # the rate excludes loading a model, for example
            self.began, self.before = now, self.done
        if self.lines.reported is not None and now - self.lines.reported < EVERY:
            return
        seconds, self.lines.reported = now - self.began, now
        parts = [f"{self.done:,}{'' if self.total is None else f' of {self.total:,}'} {self.unit}"]
        if rate := (self.done - self.before) / seconds if seconds and seconds >= EVERY / 2 else 0.0:
            parts.append(f"{f'{rate:.1f}' if rate >= 1 else f'{rate:.2g}'} {self.unit}/s")
            if self.total is not None and self.done < self.total:
                parts.append(f"{duration((self.total - self.done) / rate)} left")
        self.lines.note(f"{self.title}: {', '.join(filter(None, [*parts, self.note]))}")

    def describe(self, text: str) -> None:
        self.note = text


class Seconds(dict[str, float]):
    """Total seconds spent on each operation, by its name."""

    @contextmanager
    def of(self, operation: str, without: Collection[str] = ()) -> Iterator[None]:
        """Add the time spent in the block to `operation`, except the time of the nested operations `without`."""

        def spent() -> float:
            return time.perf_counter() - sum(self.get(each, 0.0) for each in without)

        began = spent()
        try:
            yield
        finally:
            self[operation] = self.get(operation, 0.0) + spent() - began
