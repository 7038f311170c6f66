"""Runs a recipe in one process after another, each of which dies at a later durable write than the one before.

    python kill_at_many_writes.py RECIPE STORE OUT WHOLE STRIDE

The first one is not disturbed, its results are in WHOLE. Prints the last one's exit code, and how many died where.
"""

import importlib
import os
import sys
from collections import Counter
from pathlib import Path

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan, publish
from hardneg.store import Store

DIED = 9
LOADED = ("sentence_transformers", "ranx", "accelerate", "pyarrow.csv", "matplotlib.pyplot")
LOADED += ("hardneg.evaluation.metrics",)
CALLS = ("replace", "fsync", "fdatasync", "unlink", "rmdir", "chmod", "link", "mkdir", "ftruncate")


def dies_at(number: int) -> None:
    """From here on the process dies, as by kill -9, just before its `number`th call that changes the disk."""
    left = [number]

    def watched(call):
        def or_die(*arguments, **options):
            left[0] -= 1
            if not left[0]:
                os._exit(DIED)
            return call(*arguments, **options)

        return or_die

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))


def run(recipe: Path, store: Store, out: Path) -> None:
    plan = make_plan(load_recipe(recipe))
    publish(plan, execute(plan, store, Options(device="cpu"), Watcher()).artifacts, store, out)


def in_a_child(number: int, recipe: Path, store: Path, out: Path) -> int:
    """Runs in a process of its own, which dies at the `number`th write; its exit code."""
    if not (child := os.fork()):
        dies_at(number)
        run(recipe, Store(store), out)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    recipe, store, out, whole = map(Path, sys.argv[1:5])
    for name in LOADED:  # imported once; nothing of them may run before the forks
        importlib.import_module(name)
    code = in_a_child(-1, recipe, whole / "store", whole / "out")
    died: Counter[str] = Counter()
    number = stride = int(sys.argv[5])
    while code == 0 and (code := in_a_child(number, recipe, store, out)) == DIED:
        died["in a stage" if list(store.glob("*.partial")) else "between"] += 1
        number, code = number + stride, 0
    print(code, dict(died))


if __name__ == "__main__":
    main()
