"""The recipe that compares recommendations on test queries is one, and trains all rows alike."""

import importlib.util
from pathlib import Path

import yaml

from hardneg.recipe.load import load_recipe

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "recommended_on_test.py"
TRAIN = {"stage": "train", "options": {"max_steps": 3}}


def test_all_rows_are_trained_alike(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("recommended_on_test", PROGRAM)
    assert spec and spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    mined = {"stage": "mine", "runs": {"dense": "train-run"}}
    stages = {
        "index": {"stage": "encode"},
        "train-run": {"stage": "search", "index": "index", "split": "train"},
        "start-run": {"stage": "search", "index": "index"},
        "negatives": {**mined, "miner": {"name": "topk", "depth": 5}},
        "in-batch": {
            **TRAIN,
            "options": {"max_steps": 3, "negatives_per_query": 0},
            "loss": {"name": "ranknet", "pairs": "all"},
        },
        "in-batch-index": {"stage": "encode", "model": "in-batch"},
        "in-batch-test": {"stage": "search", "index": "in-batch-index"},
        "model": {**TRAIN, "loss": "star", "negatives": "negatives"},
        "model-index": {"stage": "encode", "model": "model"},
        "model-test": {"stage": "search", "index": "model-index"},
        "scores": {
            "stage": "evaluate",
            "runs": {"as shipped": "start-run", "In-Batch Neg": "in-batch-test", "Hard Neg": "model-test"},
        },
        "report": {"stage": "report", "evaluation": "scores", "training": {"Hard Neg": "model"}},
    }
    trials = {"dataset": "pydocs", "model": "m", "stages": stages}
    rule = {"stages": {"negatives": {**mined, "miner": {"name": "window", "skip": 2, "depth": 9}}}}
    (tmp_path / "trials.yaml").write_text(yaml.safe_dump(trials))
    tree = {"extends": str(tmp_path / "trials.yaml"), "seeds": [1, 2], "stages": program.comparison(rule, trials)}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(tree))
    recipe = load_recipe(tmp_path / "test.yaml", None, [])
    assert recipe.stages["rule-negatives"].miner.options == {"skip": 2, "depth": 9}
    assert recipe.stages["top-negatives"].miner.options == {"depth": 200}
    rows = ["Hard Neg", "Top 200", "Recommended by the rule"]
    assert all(row in recipe.stages["scores"].runs for row in rows)
    assert {recipe.stages[f"{name}-seed-1"].options.max_steps for name in ("in-batch", "model", "top", "rule")} == {3}
