"""The trainings of every `paper` preset for some steps, on made-up passages: their memory against the plan's."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from gpu.material import bert
from gpu.recipes import Notes, collection, gigabytes
from gpu.setting import Figures, Setting, Skipped

from hardneg.recipes import Options, Watcher, execute, expand, find_recipe, load_recipe, make_plan, preset_names
from hardneg.store import Store

_LEFT_OUT = ("validation", "validation_run", "augmented", "watch", "guide", "title", "devices", "query_vectors")
_INPUTS = {"negatives": "static", "index": "start-index"}
_EACH_STEP = ("epochs", "stop_at", "keep_every", "evaluate_every", "checkpoint_every", "warmup_ratio")


def paper(setting: Setting, name: str) -> Figures:
    """Each training that is of a kind of its own, from a model of random weights of the size that the recipe names."""
    if "paper" not in preset_names(find_recipe(name)):
        raise Skipped("it has no preset called paper")
    tree, found = expand(find_recipe(name), "paper", []).tree, Figures()
    for stage, training in trainings(tree):
        found[f"{stage}, GB"] = _memory(setting, tree, stage, training)
    if not found:
        raise Skipped("it trains nothing that texts and models alone are enough for")
    return found


def trainings(tree: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The training stages, each once: what it starts from is the recipe's model, what it learns from is mined anew."""
    seen: set[str] = set()
    for name, stage in tree["stages"].items():
        if stage["stage"] not in ("train", "train-queries", "train-refreshed", "train-reranker"):
            continue
        made = {key: value for key, value in stage.items() if key not in (*_LEFT_OUT, "model")}
        made |= {key: target for key, target in _INPUTS.items() if stage.get(key) is not None}
        if (text := json.dumps(made, sort_keys=True)) not in seen:
            seen.add(text)
            yield name, made


def _memory(setting: Setting, tree: Mapping[str, Any], name: str, training: dict[str, Any]) -> float:
    """Gigabytes that were taken."""
    spec, store = _model(setting, dict(tree["model"])), Store(setting.folder.parent / "paper-store")
    started = {
        "start-index": {"stage": "encode"},
        "start-train": {"stage": "search", "index": "start-index", "split": "train", "depth": 210},
        "static": {"stage": "mine", "runs": {"dense": "start-train"}, "miner": {"name": "topk", "depth": 200}},
    }
    cut = {"dataset": f"beir:{_passages(setting)}", "model": spec, "stages": {**started, name: _cut(setting, training)}}
    path = setting.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(cut, sort_keys=False))
    plan = make_plan(load_recipe(path))
    done = execute(plan, store, Options(device=setting.device, until=name), Watcher(progress=Notes()))
    return gigabytes(done.artifacts[name])


def _cut(setting: Setting, training: dict[str, Any]) -> dict[str, Any]:
    """So many steps, without checkpoints in between; small batches where it is small."""
    options = {key: value for key, value in training.get("options", {}).items() if key not in _EACH_STEP}
    options |= {"max_steps": setting.size(200, 2), "warmup_steps": 0, "checkpoint_every": None}
    if setting.small:
        options |= {"batch_size": 4, "accumulate": 1} | ({"chunk": 2} if options.get("chunk") else {})
    made = {**training, "options": options}
    if "refresh" in made:
        made["refresh"] = {**made["refresh"], "every": setting.size(100, 1)}
    if "reranker" in made:
        made["reranker"] = {**made["reranker"], **_reranker(setting, made["reranker"])}
    return made


def _model(setting: Setting, spec: dict[str, Any]) -> dict[str, Any]:
    """The same spec of a model of random weights, as large as the named one by its name."""
    encoder = spec.get("encoder") or {}
    kind = encoder if isinstance(encoder, str) else encoder.get("name", "dense")
    if kind in ("static", "http"):
        raise Skipped(f"a {kind} model has no layers whose memory could be too large")
    spec["name"] = str(_bert(setting, str(spec["name"]), terms=kind == "sparse"))
    for length in ("query_length", "document_length") if setting.small else ():
        spec[length] = min(32, spec.get(length, 32))
    return {key: value for key, value in spec.items() if key != "revision"}


def _reranker(setting: Setting, reranker: Mapping[str, Any]) -> dict[str, Any]:
    if reranker.get("name") != "cross-encoder":
        raise Skipped(f"reranker {reranker.get('name')} reads a model of its own kind")
    return {"source": str(_bert(setting, str(reranker.get("source")))), "revision": None}


def _bert(setting: Setting, name: str, terms: bool = False) -> Path:
    large = "large" in name.lower()
    shape = (setting.size(1024 if large else 768, 64), setting.size(24 if large else 12, 2))
    folder = setting.folder.parent / "paper-models" / f"{shape[0]}-{shape[1]}{'-terms' * terms}"
    return bert(folder, *shape, terms=terms)


def _passages(setting: Setting) -> Path:
    """As many words as MS MARCO's passages have tokens, and its queries; for all pieces one collection."""
    place = setting.folder.parent / "paper-collection"
    return collection(Setting(setting.device, setting.small, setting.full, place), setting.size(100_000, 300), 75)
