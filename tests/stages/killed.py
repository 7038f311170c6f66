"""A program that runs a recipe and kills itself when a step has advanced so often."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.runtime import Silent
from hardneg.store import Store


class Killing(Silent):
    """A progress display that kills its own process when the task of a title has advanced `count` times."""

    def __init__(self, title: str, count: int) -> None:
        self.title, self.left = title, count
        self.counts = False

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        outside, self.counts = self.counts, title == self.title
        yield self
        self.counts = outside

    def advance(self, count: int = 1) -> None:
        self.left -= self.counts
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def describe(self, text: str) -> None:
        pass


def main(recipe: str, store: str, title: str, count: str, *later: str) -> None:
    """Dies at a title and count; where several are given, each has a process of its own, and what it left is told."""
    if later:
        in_turn(recipe, store, [title, count, *later])
    else:
        watcher = Watcher(progress=Killing(title, int(count)))
        execute(make_plan(load_recipe(Path(recipe))), Store(Path(store)), Options(device="cpu"), watcher)


def in_turn(recipe: str, store: str, kills: list[str]) -> None:
    """Forks for each kill, behind the imports that take long; prints how each child ended and the unfinished keys."""
    import sentence_transformers  # noqa: F401

    for title, count in zip(kills[::2], kills[1::2], strict=True):
        if not (child := os.fork()):
            main(recipe, store, title, count)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, *(path.stem for path in Path(store).glob("*.partial")), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
