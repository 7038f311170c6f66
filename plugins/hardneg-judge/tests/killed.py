"""Runs a recipe in this process, for tests that kill it: `killed.py RECIPE STORE`."""

import sys
from pathlib import Path

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.store import Store

if __name__ == "__main__":
    execute(make_plan(load_recipe(Path(sys.argv[1]))), Store(Path(sys.argv[2])), Options(device="cpu"), Watcher())
