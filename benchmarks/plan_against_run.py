"""What a plan foretold of each step of a recipe, beside what a finished run of it took: memory.

    hardneg recipe run star-passage --store STORE
    python benchmarks/plan_against_run.py star-passage --store STORE [--preset P] [--set PATH=VALUE ...]

The plan is made as if nothing were in the store.
"""

import argparse
import json
from pathlib import Path

from hardneg.recipe.estimate import estimate
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import cached, make_plan
from hardneg.recipe.yaml_load import find_recipe
from hardneg.store.artifacts import Store


def main() -> None:
    parser = argparse.ArgumentParser(description="A plan's estimates beside a run's.")
    parser.add_argument("recipe")
    parser.add_argument("--store", type=Path, required=True, help="the store that the run has filled")
    parser.add_argument("--preset")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="PATH=VALUE")
    options = parser.parse_args()
    plan = make_plan(load_recipe(find_recipe(options.recipe), options.preset, options.settings))
    store, nothing = Store(options.store), Store(options.store / "nothing of it")
    print(f"{'step':<20} {'foretold MB':>12} {'taken MB':>9}")
    for row in estimate(plan, nothing):
        artifact = cached(row.step, store)
        if artifact is None:
            continue
        facts = json.loads((artifact.path / "manifest.json").read_text(encoding="utf-8"))["facts"]
        peak = float(facts["usage"].get("peak_memory", 0)) / 1e6
        print(f"{row.step.name:<20} {row.memory / 1e6:>12.0f} {peak:>9.0f}")


if __name__ == "__main__":
    main()
