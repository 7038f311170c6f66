"""Progress of long steps, reported without the library talking to a terminal; seconds by operation."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from hardneg.records import duration

EVERY = 10.0
"""Seconds between two lines of progress."""


class Task(Protocol):
    """One running bar."""

    def advance(self, count: int = 1) -> None:
        """`count` more units are done."""

    def describe(self, text: str) -> None:
        """A short note beside the bar, such as the loss."""


class Progress(Protocol):
    """Starts bars. The command line shows them, or `Lines` in a file; elsewhere `Silent` serves."""

    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> AbstractContextManager[Task]:
        """A bar of `total` units (None: unknown), of which `done` are finished already."""

    def note(self, text: str) -> None:
        """One line that stays: a count of things left out, say."""


class Silent:
    """Shows nothing; its one task is itself."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """A bar that nobody sees."""
        yield self

    def note(self, text: str) -> None:
        """Nothing."""

    def advance(self, count: int = 1) -> None:
        """Nothing."""

    describe = note


class Lines:
    """Reports progress by lines, at most one in ten seconds over all tasks: what is done, the rate, the time left.

    note: takes a line. clock: seconds.
    """

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.note, self.clock, self.reported = note, clock, clock()

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """A task reported by lines while it runs; its rate from the first units on."""
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
        if self.began is None:  # what came before, such as loading a model, is no part of the rate
            self.began, self.before = now, self.done
        if now - self.lines.reported < EVERY:
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
    """Seconds by operation."""

    @contextmanager
    def of(self, operation: str, without: Collection[str] = ()) -> Iterator[None]:
        """Counts what is inside as part of `operation`, less what the operations `without` take in it."""

        def spent() -> float:
            return time.perf_counter() - sum(self.get(each, 0.0) for each in without)

        began = spent()
        try:
            yield
        finally:
            self[operation] = self.get(operation, 0.0) + spent() - began
