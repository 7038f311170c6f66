"""Runs a recipe where there is too little room, then with a little more, until there is enough.

    python fill_the_disk.py RECIPE STORE OUT WAY

WAY is `tmpfs` (STORE is a file system of its own, needs root and a mount namespace) or `limit` (of a file's size).
Prints a line for each run that failed: the unfinished step and the message.
"""

import resource
import subprocess
import sys
from pathlib import Path

from hardneg.recipes import Options, Plan, Watcher, execute, load_recipe, make_plan, publish
from hardneg.records import ArtifactError, ModelError
from hardneg.store import Store

MORE = 4


def make_room(store: Path, way: str, size: int, mounted: bool) -> None:
    """Lets the store, or each file, hold `size` bytes."""
    if way == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return
    options = f"remount,size={size}" if mounted else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(store)], check=True)


def attempt(plan: Plan, store: Store, out: Path) -> str:
    """The error's message, or nothing."""
    try:
        publish(plan, execute(plan, store, Options(device="cpu"), Watcher()).artifacts, store, out)
    except (ArtifactError, ModelError) as error:
        missing = [name for name, step in plan.steps.items() if not (store.root / step.key).exists()]
        return f"{[*missing, 'run folder'][0]}\t{error}"
    return ""


def main() -> None:
    recipe, root, out = map(Path, sys.argv[1:4])
    root.mkdir(parents=True)
    plan, size, mounted = make_plan(load_recipe(recipe)), 2000 if sys.argv[4] == "limit" else 40_000, False
    while True:
        make_room(root, sys.argv[4], size, mounted)
        failure = attempt(plan, Store(root), out)
        if not failure:
            break
        print(failure, flush=True)
        size, mounted = int(size * MORE), True
    print("finished")


if __name__ == "__main__":
    main()
