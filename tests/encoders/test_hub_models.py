"""Models of the hub, asked of a server of this machine that answers as the hub does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hub_server import Hub, hub_server
from safetensors.torch import load_file
from tiny import tiny_encoder

from tests.encoders.test_adapters import apart

FETCH = """
import json, sys
from hardneg.records.errors import HardnegError
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import resolve, load_learner
from hardneg.encoders.spec import AdapterSpec, ModelSpec
told = {}
for name in sys.argv[1:]:
    model, _, adapter = name.partition("+")
    adapter = AdapterSpec(adapter) if adapter else None
    try:
        spec = ModelSpec(model, pooling="mean", query_length=16, document_length=16, adapter=adapter)
        told[name] = [resolve(spec).digest, load_learner(spec, "cpu").encode(["an old river"], "query").tolist()]
    except HardnegError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""
NAMES = ["some/safe", "some/old", "some/shards", "some/both", "some/adapter", "some/base+some/adapter"]
MISSING = ["some/gated", "some/missing"]


def _add_models(hub: Hub, place: Path) -> None:
    safe = tiny_encoder(place / "safe", kind="transformers")
    weights = load_file(safe / "model.safetensors")
    torch.save(weights, place / "pytorch_model.bin")
    hub.model("some/safe", safe)
    hub.model("some/gated", safe, gated=True)
    files = dict(hub.repositories["models/some/safe"].branches["main"])
    bare = {name: data for name, data in files.items() if name != "model.safetensors"}
    pickled = (place / "pytorch_model.bin").read_bytes()
    hub.model("some/old", {**bare, "pytorch_model.bin": pickled, "training_args.bin": b"never asked for"})
    hub.model("some/both", {**files, "pytorch_model.bin": pickled})
    names = sorted(weights)
    shards = {f"pytorch_model-{part + 1:05}-of-00002.bin": names[part::2] for part in range(2)}
    index = {"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}
    split = {}
    for shard, held in shards.items():
        torch.save({name: weights[name] for name in held}, place / shard)
        split[shard] = (place / shard).read_bytes()
    base = tiny_encoder(place / "base")
    adapter, _ = apart(base, place / "adapter")
    config = (adapter / "adapter_config.json").read_text().replace(str(base.resolve()), "some/base")
    (adapter / "adapter_config.json").write_text(config)
    hub.model("some/base", base)
    hub.model("some/adapter", adapter)
    hub.model("some/shards", {**bare, **split, "pytorch_model.bin.index.json": json.dumps(index).encode()})


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, dict[str, str]]:
    """What one process says of all models, the paths that it fetched, and the environment with its cache."""
    folder = tmp_path_factory.mktemp("hub-models")
    with hub_server() as hub:
        _add_models(hub, folder)
        environment = hub.environment(folder / "cache")
        done = subprocess.run(
            [sys.executable, "-c", FETCH, *NAMES, *MISSING],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), " ".join(hub.fetched()), environment


@pytest.mark.slow
def test_weights_are_fetched_in_one_form(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, paths, _ = fetched
    assert told["some/safe"][1] == told["some/old"][1] == told["some/shards"][1] == told["some/both"][1]
    np.testing.assert_allclose(told[NAMES[4]][1], told[NAMES[5]][1], atol=1e-6)  # by its own name, and beside its base
    assert len({told[name][0] for name in NAMES}) == 6
    assert "some/old/" in paths and "training_args.bin" not in paths
    both = [path for path in paths.split() if path.startswith("/some/both/") and "pytorch_model" in path]
    assert both == []
    assert told["some/gated"].startswith("ModelError: model 'some/gated'") and "gated" in told["some/gated"]
    assert told["some/missing"].startswith("ModelError: model 'some/missing'")
    assert all("\n" not in told[name] for name in MISSING)


@pytest.mark.slow
def test_fetched_models_open_without_the_network(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, _, environment = fetched
    line = [sys.executable, "-c", FETCH, *NAMES]
    again = subprocess.run(line, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=300)
    assert json.loads(again.stdout) == {name: told[name] for name in NAMES}
