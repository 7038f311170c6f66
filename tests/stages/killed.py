"""A program that runs a recipe and kills itself when a step has advanced so often."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.artifacts import Store
from hardneg.progress import Silent
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan


class Killing(Silent):
    """A progress display that kills its own process when the task of a title has advanced `count` times."""

    def __init__(self, title: str, count: int) -> None:
        self.title, self.left = title, count
        self.counts = False

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        self.counts = title == self.title
        yield self
        self.counts = False

    def advance(self, count: int = 1) -> None:
        self.left -= self.counts
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def describe(self, text: str) -> None:
        pass


def main(recipe: str, store: str, title: str, count: str) -> None:
    watcher = Watcher(progress=Killing(title, int(count)))
    execute(make_plan(load_recipe(Path(recipe))), Store(Path(store)), Options(device="cpu"), watcher)


if __name__ == "__main__":
    main(*sys.argv[1:])
