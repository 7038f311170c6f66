"""Every verb that several processes share, in two processes: what one process makes."""

import json
import os
import sys
from typing import Any

import yaml
from gpu.material import LENGTH, bert, model
from gpu.recipes import Notes, collection, means
from gpu.setting import Figures, Setting, expect
from gpu.several import launch, own_cards, own_place, shared_card

from hardneg.runtime import leave
from hardneg.store import Store

_SAME = 0.02  # of metrics: sums in another order move a training a little


def one_card(setting: Setting) -> Figures:
    """Two processes by gloo on one card, or on a CPU."""
    return _as_one(setting, shared_card(setting))


def two_cards(setting: Setting) -> Figures:
    """Two processes by NCCL, a card each."""
    return _as_one(setting, own_cards(setting))


def _as_one(setting: Setting, devices: list[str]) -> Figures:
    expected = made(setting, devices[0], "one")
    launch(setting, devices, "gpu.together")
    found = json.loads((setting.folder / "two.json").read_text())
    apart = {name: abs(value - found[name]) for name, value in expected.items()}
    worst = max(apart, key=lambda name: apart[name])
    expect(apart[worst] <= _SAME, f"{worst}: {found[worst]:.4f} in two processes, {expected[worst]:.4f} in one")
    return {"rows": len(expected), "largest difference of a metric": round(apart[worst], 4)}


def made(setting: Setting, device: str, name: str) -> dict[str, float]:
    """Each metric of every row of a recipe in which each verb has its turn."""
    from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan

    path = setting.folder / f"{name}-{os.environ.get('RANK', '')}.yaml"  # each process writes its own
    path.write_text(yaml.safe_dump(_tree(setting), sort_keys=False))
    done = execute(
        make_plan(load_recipe(path)),
        Store(setting.folder / f"store-{name}"),
        Options(device=device),
        Watcher(progress=Notes()),
    )
    return means(json.loads((done.artifacts["scores"].path / "metrics.json").read_text()))


def _tree(setting: Setting) -> dict[str, Any]:
    steps, batch = setting.size(40, 2), setting.size(16, 4)
    options = {"batch_size": batch, "max_steps": steps, "warmup_steps": 0, "precision": "fp32"}
    place = bert(setting.folder / "judge", setting.size(384, 64), setting.size(6, 2), dropout=0.0)
    judge = {"name": "cross-encoder", "source": str(place), "length": LENGTH}
    spec = {"name": str(model(setting)), "query_length": 16, "document_length": LENGTH}
    train, loss = {"stage": "train", "negatives": "static", "loss": "star"}, {"name": "lambda", "cut": 20}
    stages: dict[str, Any] = {
        "start-index": {"stage": "encode"},
        "start-train": {"stage": "search", "index": "start-index", "split": "train", "depth": 20},
        "start-test": {"stage": "search", "index": "start-index", "depth": 20},
        "static": {"stage": "mine", "runs": {"dense": "start-train"}, "miner": {"name": "topk", "depth": 10}},
        "star": {**train, "options": options},
        "cached": {**train, "options": {**options, "chunk": batch // 2}},
        "adore": {"stage": "train-queries", "index": "start-index", "loss": loss, "depth": 20, "options": options},
        "ance": {
            "stage": "train-refreshed",
            "loss": "infonce",
            "refresh": {"policy": "synchronous", "every": max(1, steps // 2), "depth": 20, "negatives": 5},
            "options": options,
        },
        "judge": {"stage": "train-reranker", "reranker": judge, "negatives": "static", "options": options},
        "judged": {"stage": "rerank", "run": "start-test", "reranker": "judge", "depth": 10},
    }
    runs = {"start": "start-test", "judged": "judged"}
    for name in ("star", "cached", "ance"):
        stages |= {f"{name}-index": {"stage": "encode", "model": name}}
        stages |= {f"{name}-test": {"stage": "search", "index": f"{name}-index", "depth": 20}}
        runs[name] = f"{name}-test"
    stages["adore-test"] = {"stage": "search", "index": "start-index", "model": "adore", "depth": 20}
    stages["scores"] = {
        "stage": "evaluate",
        "runs": {**runs, "adore": "adore-test"},
        "metrics": ["mrr@10", "recall@10"],
    }
    return {"dataset": f"beir:{collection(setting, setting.size(20_000, 300), 90)}", "model": spec, "stages": stages}


def _work(folder: str, small: str, *devices: str) -> None:
    """One of the processes; the first one writes what they came to."""
    first, setting = own_place(folder, small, devices)
    found = made(setting, setting.device, "two")
    if first:
        (setting.folder / "two.json").write_text(json.dumps(found))
    leave()


if __name__ == "__main__":
    _work(*sys.argv[1:])
