"""What a plan foretold of each step of a recipe, beside what a finished run of it took: seconds and memory.

    hardneg doctor --measure
    hardneg recipe run star-passage --store STORE
    python benchmarks/plan_against_run.py star-passage --store STORE [--preset P] [--set PATH=VALUE ...]

The plan is made as if nothing were in the store, from the rates that are kept on this machine.
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
    print(f"{'step':<20} {'foretold s':>10} {'taken s':>8} {'ratio':>6} {'foretold MB':>12} {'taken MB':>9}  from")
    total = [0.0, 0.0]
    for row in estimate(plan, nothing):
        artifact = cached(row.step, store)
        if artifact is None:
            continue
        facts = json.loads((artifact.path / "manifest.json").read_text(encoding="utf-8"))["facts"]
        taken, peak = float(facts["seconds"]), float(facts["usage"].get("peak_memory", 0)) / 1e6
        total = [total[0] + row.seconds, total[1] + taken]
        ratio, bases = row.seconds / max(taken, 1e-3), ", ".join(row.seconds.bases)
        figures = f"{row.seconds:>10.1f} {taken:>8.1f} {ratio:>6.2f} {row.memory / 1e6:>12.0f} {peak:>9.0f}"
        print(f"{row.step.name:<20} {figures}  {bases}")
    print(f"{'all':<20} {total[0]:>10.1f} {total[1]:>8.1f} {total[0] / max(total[1], 1e-3):>6.2f}")


if __name__ == "__main__":
    main()
