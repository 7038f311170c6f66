"""A run folder as a finished recipe leaves it, made by hand: a tiny model, scores, a lock file; its artifact."""

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.store import Store

SCORES = {
    "start": {"mrr@10": {"q1": 0.5, "q2": 0.0, "q3": 0.25, "q4": 0.25}},
    "STAR": {"mrr@10": {"q1": 1.0, "q2": 0.5, "q3": 0.5, "q4": 0.5}},
}


def tree_of(data: Path, model: Path) -> dict[str, Any]:
    search = {"stage": "search", "index": "start-index"}
    stages = {
        "start-index": {"stage": "encode"},
        "start-test": search,
        "start-train": {**search, "split": "train"},
        "static": {"stage": "mine", "runs": {"dense": "start-train"}, "miner": {"name": "topk", "depth": 10}},
        "star": {"stage": "train", "negatives": "static", "loss": "star"},
        "star-index": {"stage": "encode", "model": "star"},
        "star-test": {"stage": "search", "index": "star-index"},
        "scores": {"stage": "evaluate", "runs": {"start": "start-test", "STAR": "star-test"}, "metrics": ["mrr@10"]},
    }
    whole = {"title": f"Negatives of {data}", "dataset": f"beir:{data}", "stages": stages}
    return whole | {"model": {"name": str(model), "query_length": 16, "document_length": 24}}


def finished_run(folder: Path, store: Store, model: Path) -> Path:
    """Writes it, with the artifact of its model in the store."""
    tree = tree_of(folder.parent / "data", model)
    keys = {name: f"{number:032x}" for number, name in enumerate(["dataset", *tree["stages"]], start=1)}
    made = store.workspace(keys["star"])
    encoder = load_learner(ModelSpec(str(model), query_length=16, document_length=24), "cpu")
    encoder.save(made / "model", card=model_card(encoder, {"Base model": str(model), "Loss": "star"}))
    artifact = store.commit(keys["star"], "model", {}, {"name": "star"})
    shutil.copytree(artifact.path / "model", folder / "model")
    write_metrics(folder / "metrics.json", Measured(SCORES))
    lock = {"hardneg": "0.1.0", "recipe": "mine", "preset": "demo", "start_model": "f" * 32, "keys": keys, "tree": tree}
    (folder / "recipe.lock.yaml").write_text(yaml.safe_dump(lock, sort_keys=False))
    return folder


def spoil(path: Path, text: str) -> None:
    """Puts a text into a JSON file that is to be pushed."""
    path.chmod(0o644)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "_name_or_path": text}))
