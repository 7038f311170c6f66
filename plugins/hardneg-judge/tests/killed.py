"""Runs a recipe in this process, for tests that kill it: `killed.py RECIPE STORE`."""

import sys
from pathlib import Path

from hardneg.recipes.execute import Options, Watcher, execute
from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.store import Store

if __name__ == "__main__":
    execute(make_plan(load_recipe(Path(sys.argv[1]))), Store(Path(sys.argv[2])), Options(device="cpu"), Watcher())
