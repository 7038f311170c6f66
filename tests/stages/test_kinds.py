"""The whole line on each kind of encoder: mined, trained, refreshed, trained on the index, searched, evaluated."""

import json
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import artifacts_of, small_collection, small_tree, write_recipe
from tiny import BY_FAMILY

from hardneg.encoders.open.resolved import load_encoder
from hardneg.recipes import load_recipe, make_plan

CLASSES = {"sparse": "SparseEncoder", "multi-vector": "MultiVectorEncoder"}
STEPS = {"max_steps": 4, "batch_size": 8, "learning_rate": 1e-3, "evaluate_every": 2}


def tree_of(collection: Path, model: Path, kind: str) -> dict[str, Any]:
    tree = small_tree(collection, model)
    tree["model"] = str(model)
    stages, judged = tree["stages"], {"validation_run": "start-dev"}
    stages["start-dev"] = {**stages["start-train"], "split": "dev"}
    stages["star"] |= {"options": STEPS, **judged} | ({"regularizer": "flops"} if kind == "sparse" else {})
    mined = {"policy": "synchronous", "every": 2, "depth": 10, "negatives": 4}
    stages["ance"] = {"stage": "train-refreshed", "loss": "nll", "refresh": mined, "options": STEPS, **judged}
    stages["cross-batch"] = {**stages["star"], "loss": "infonce", "options": {**STEPS, "chunk": 2}}
    watch = {"every": 2, "depth": 5, "queries": 8}
    adore = {"stage": "train-queries", "model": "star", "index": "star-index", "depth": 6, "watch": watch}
    stages["adore"] = {**adore, "loss": {"name": "lambda", "cut": 5}, "options": STEPS, **judged}
    stages["adore-test"] = {"stage": "search", "index": "star-index", "model": "adore", "split": "test", "depth": 20}
    stages["scores"]["runs"]["ADORE"] = "adore-test"
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(BY_FAMILY))
def test_the_whole_line(tmp_path: Path, kind: str) -> None:
    model = BY_FAMILY[kind](tmp_path / "model")
    recipe = write_recipe(tmp_path / "kinds.yaml", tree_of(small_collection(tmp_path / "data"), model, kind))
    made = artifacts_of(make_plan(load_recipe(recipe)), tmp_path / "store")
    for name in ("star", "ance", "cross-batch", "adore"):
        history = [json.loads(line) for line in (made[name].path / "history.jsonl").read_text().splitlines()]
        assert [record["step"] for record in history if "loss" in record] == [1, 2, 3, 4]
        assert len([record for record in history if "dev" in record]) == 2
        assert any(record.get("gradient_norm", 0) > 0 for record in history)
        assert all("penalty" in record for record in history if "loss" in record) == (
            kind == "sparse" and name in ("star", "cross-batch")
        )
        saved = json.loads((made[name].path / "model" / "config_sentence_transformers.json").read_text())
        assert saved.get("model_type", "SentenceTransformer") == CLASSES.get(kind, "SentenceTransformer")
        assert load_encoder(made[name].path / "model", "cpu").dimension > 0
    history = [json.loads(line) for line in (made["adore"].path / "history.jsonl").read_text().splitlines()]
    drift = [record["drift"] for record in history if "drift" in record]
    assert len(drift) == 3 and all(
        0 <= found["overlap"] <= 1 and ("best_rank" in found) == (kind in ("dense", "static")) for found in drift
    )
    measured = json.loads((made["scores"].path / "metrics.json").read_text())
    assert {"start", "STAR", "ADORE"} <= {*json.dumps(measured).replace('"', " ").split()}
