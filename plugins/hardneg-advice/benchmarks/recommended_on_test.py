"""Writes a recipe that has what `hardneg recommend` chose beside `topk` of depth 200 and in-batch negatives, on test.

    hardneg recommend --dataset D --model M --train 0 --output rule.yaml
    hardneg recommend --dataset D --model M --train 60 --output trials.yaml
    python plugins/hardneg-advice/benchmarks/recommended_on_test.py rule.yaml trials.yaml test.yaml [--seeds 1 2 3 4 5]
    hardneg recipe run test.yaml

Both are trained as the recipe with trials says. Dev queries alone have chosen, test queries measure.
"""

import argparse
from pathlib import Path
from typing import Any

import yaml


def comparison(rule: dict[str, Any], trials: dict[str, Any]) -> dict[str, Any]:
    """The stages beside those of the recipe with trials."""
    miners = {"top": {"name": "topk", "depth": 200}, "rule": rule["stages"]["negatives"]["miner"]}
    labels = {"top": "Top 200", "rule": "Recommended by the rule"}
    stages: dict[str, Any] = {}
    for name, miner in miners.items():
        stages[f"{name}-negatives"] = {"stage": "mine", "runs": {"dense": "train-run"}, "miner": miner}
        stages[name] = {**trials["stages"]["model"], "negatives": f"{name}-negatives"}
        stages[f"{name}-index"] = {"stage": "encode", "model": name}
        stages[f"{name}-test"] = {"stage": "search", "index": f"{name}-index"}
    runs = {label: f"{name}-test" for name, label in labels.items()}
    stages["scores"] = {"runs": runs, "baselines": ["In-Batch Neg", "Top 200", "as shipped"]}
    stages["report"] = {"training": {label: name for name, label in labels.items()}}
    return stages


def main() -> None:
    parser = argparse.ArgumentParser(description="A recipe that tests recommendations.")
    for name in ("rule", "trials", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    rule, trials = (yaml.safe_load(path.read_text("utf-8")) for path in (options.rule, options.trials))
    where = options.trials.resolve()
    tree = {"extends": str(where), "seeds": options.seeds, "stages": comparison(rule, trials)}
    options.output.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
