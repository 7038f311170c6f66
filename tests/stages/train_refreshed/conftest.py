"""A recipe with a training of each policy, and the store of a module's tests."""

from pathlib import Path

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.store import Store

ANCE = {
    "stage": "train-refreshed",
    "loss": "infonce",
    "refresh": {"policy": "synchronous", "every": 4, "depth": 10, "negatives": 4},
    "options": {"batch_size": 8, "max_steps": 12, "learning_rate": 0.001, "precision": "fp32", "checkpoint_every": 3},
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("refreshed")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    kept = {name: tree["stages"][name] for name in ("start-index", "start-train", "static")}
    kept["start-dev"] = {**kept["start-train"], "split": "dev"}
    parts = {"policy": "synchronous", "every": 4, "depth": 10, "negatives": 4, "query_chunks": 2}
    kept["ance"] = ANCE
    kept["parts"] = {**ANCE, "negatives": "static", "refresh": {**parts, "choice": "top", "excluded": "last"}}
    miner = {"name": "pos-percent", "share": 0.99, "depth": 10, "count": 8}
    kept["guarded"] = {**ANCE, "miner": miner, "filters": ["near-copies"]}
    kept["beside"] = {**ANCE, "refresh": {"policy": "every", "every": 3, "depth": 10, "negatives": 4}}
    return write_recipe(folder / "refreshed.yaml", {**tree, "stages": kept, "presets": {}})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))
