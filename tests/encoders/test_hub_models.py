"""Models of the hub, asked of a server of this machine that answers as the hub does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_server import Hub, hub_server
from safetensors.torch import load_file
from tiny import tiny_encoder, tiny_static

FETCH = """
import json, sys
from hardneg.records.errors import HardnegError
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import resolve, load_learner
from hardneg.encoders.spec import ModelSpec
told = {}
for name in sys.argv[1:]:
    try:
        spec = ModelSpec(name, pooling="mean", query_length=16, document_length=16)
        told[name] = [resolve(spec).digest, load_learner(spec, "cpu").encode(["an old river"], "query").tolist()]
    except HardnegError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""
NAMES = ["some/safe", "some/old", "some/shards", "some/both", "some/gated", "some/missing"]


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
    hub.model("some/shards", {**bare, **split, "pytorch_model.bin.index.json": json.dumps(index).encode()})


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, dict[str, str]]:
    """What one process says of all models, the paths that it fetched, and the environment with its cache."""
    folder = tmp_path_factory.mktemp("hub-models")
    with hub_server() as hub:
        _add_models(hub, folder)
        environment = hub.environment(folder / "cache")
        done = subprocess.run(
            [sys.executable, "-c", FETCH, *NAMES], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), " ".join(hub.fetched()), environment


@pytest.mark.slow
def test_weights_are_fetched_in_one_form(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, paths, _ = fetched
    assert told["some/safe"][1] == told["some/old"][1] == told["some/shards"][1] == told["some/both"][1]
    assert len({told[name][0] for name in NAMES[:4]}) == 4
    assert "some/old/" in paths and "training_args.bin" not in paths
    both = [path for path in paths.split() if path.startswith("/some/both/") and "pytorch_model" in path]
    assert both == []
    assert told["some/gated"].startswith("ModelError: model 'some/gated'") and "gated" in told["some/gated"]
    assert told["some/missing"].startswith("ModelError: model 'some/missing'")
    assert all("\n" not in told[name] for name in NAMES[4:])


@pytest.mark.slow
def test_fetched_models_open_without_the_network(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, _, environment = fetched
    line = [sys.executable, "-c", FETCH, *NAMES[:4]]
    again = subprocess.run(line, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=300)
    assert json.loads(again.stdout) == {name: told[name] for name in NAMES[:4]}


@pytest.mark.slow
def test_a_static_model_is_known_by_the_files_that_are_fetched(tmp_path: Path) -> None:
    code = FETCH.replace('pooling="mean", ', "")
    folder = tiny_static(tmp_path / "static")
    line = [sys.executable, "-c", code]
    with hub_server() as hub:
        hub.model("some/static", folder)
        place = hub.environment(tmp_path / "cache")
        static = [*line, "some/static", str(folder)]
        first = subprocess.run(static, env=place, capture_output=True, text=True, timeout=300)
    offline = place | {"HF_HUB_OFFLINE": "1"}
    again = subprocess.run([*line, "some/static"], env=offline, capture_output=True, text=True, timeout=300)
    told = json.loads(first.stdout)
    assert told["some/static"] == json.loads(again.stdout)["some/static"]
    assert told["some/static"][1] == told[str(folder)][1]
