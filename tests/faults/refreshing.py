"""Runs a recipe with so many seconds a step, for a test to kill it or what it starts; prints its notes.

    python refreshing.py RECIPE STORE SECONDS [ROOM]

With ROOM, a number of bytes, negatives go to a file system of that size; once that is told to be full it gets enough,
and steps take a tenth of the time.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.runtime import Silent
from hardneg.store import Store

NAME = "ance"


class Slow(Silent):
    """Waits at each step, and prints notes; the first that tells of the disk makes room on it."""

    def __init__(self, seconds: float, full: Path | None) -> None:
        self.seconds, self.full = seconds, full

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        yield self

    def advance(self, count: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        time.sleep(self.seconds)

    def note(self, text: str) -> None:
        print(text, flush=True)
        if self.full is not None and "will retry" in text:
            mount(self.full, "remount,size=100m")
            self.full, self.seconds = None, self.seconds / 10


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def main(recipe: str, store: str, seconds: str, room: str = "") -> None:
    plan, full = make_plan(load_recipe(Path(recipe))), None
    if room:
        full = Path(store) / f"{plan.steps[NAME].key}.partial" / "checkpoints" / "refreshes"
        full.mkdir(parents=True)
        mount(full, f"size={room}")
    watcher = Watcher(progress=Slow(float(seconds), full))
    execute(plan, Store(Path(store)), Options(device="cpu", until=NAME), watcher)


if __name__ == "__main__":
    main(*sys.argv[1:])
