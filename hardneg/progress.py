"""How long steps tell what they are doing, without the library talking to a terminal itself; what they take."""

import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """One running bar."""

    def advance(self, count: int = 1) -> None:
        """`count` more units are done."""

    def describe(self, text: str) -> None:
        """A short note beside the bar, such as the loss."""


class Progress(Protocol):
    """Starts bars. The command line shows them; elsewhere `Silent` serves."""

    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> AbstractContextManager[Task]:
        """A bar of `total` units (None: unknown), of which `done` are finished already."""

    def note(self, text: str) -> None:
        """One line that stays: a count of things left out, say."""


class _SilentTask:
    def advance(self, count: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """Shows nothing."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """A bar that nobody sees."""
        yield _SilentTask()

    def note(self, text: str) -> None:
        """Nothing."""


class Seconds(dict[str, float]):
    """Seconds by operation."""

    @contextmanager
    def of(self, operation: str, without: Collection[str] = ()) -> Iterator[None]:
        """Counts what is inside as part of `operation`, less what the operations `without` take in it."""
        began = time.perf_counter() - self._sum(without)
        try:
            yield
        finally:
            self[operation] = self.get(operation, 0.0) + time.perf_counter() - self._sum(without) - began

    def _sum(self, operations: Collection[str]) -> float:
        return sum(self.get(operation, 0.0) for operation in operations)
