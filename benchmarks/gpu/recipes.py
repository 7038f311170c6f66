"""Recipes on the device: ANCE beside its inferencer, what a plan says of memory, and every demo."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from gpu.material import LENGTH, model, texts
from gpu.setting import Figures, Setting, Skipped, expect

from hardneg.recipes import Options, Watcher, execute, find_recipe, load_recipe, make_plan
from hardneg.runtime import Silent
from hardneg.store import Artifact, Store

_SAME = 0.01  # of a metric, on the device and on the CPU


class Notes(Silent):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """Keeps it."""
        self.lines.append(text)


def inferencer(setting: Setting) -> Figures:
    """The corpus is encoded and searched on the trainer's own device while it trains: neither is ended by the other."""
    steps = setting.size(300, 12)
    refresh = {"policy": "every", "every": 5, "depth": 20, "negatives": 5}
    options = {"batch_size": setting.size(32, 8), "max_steps": steps, "checkpoint_every": setting.size(25, 3)}
    stage = {"stage": "train-refreshed", "loss": "infonce", "refresh": refresh, "options": options}
    made, notes = _made(setting, {"ance": stage}, "ance")
    ended = [line for line in notes if "restarted" in line]
    expect(not ended, "; ".join(ended))
    facts = made.facts
    used = int(facts["refreshes used"])
    expect(used > 0, "no refresh was used")
    return {"refreshes used": used, "mean lag": float(facts["mean lag"]), "GB": gigabytes(made)}


def memory(setting: Setting) -> Figures:
    """Of a training: the most that was taken on the card."""
    options = {"batch_size": setting.size(32, 8), "max_steps": setting.size(20, 2), "precision": "fp32"}
    stage = {"stage": "train", "negatives": "static", "loss": "star", "options": options}
    return {"GB": gigabytes(_made(setting, {"star": stage}, "star")[0])}


def gigabytes(made: Artifact) -> float:
    """The most of the card's memory or, on a CPU, of the process's, as the manifest tells."""
    manifest = json.loads((made.path / "manifest.json").read_text())
    peaks = [value for name, value in _numbers(manifest) if name in ("peak_gpu_memory", "peak_memory")]
    return round(peaks[0] / 1e9, 2) if peaks else 0.0


def _numbers(tree: Mapping[str, Any]) -> list[tuple[str, float]]:
    """All numbers, those of a card's memory first."""
    found = [(name, value) for name, value in tree.items() if isinstance(value, int | float)]
    for value in tree.values():
        found += _numbers(value) if isinstance(value, Mapping) else []
    return sorted(found, key=lambda item: item[0] != "peak_gpu_memory")


def _made(setting: Setting, stages: dict[str, Any], name: str) -> tuple[Artifact, list[str]]:
    """What a stage of a recipe over made-up texts makes; what was told."""
    start = {
        "start-index": {"stage": "encode"},
        "start-train": {"stage": "search", "index": "start-index", "split": "train", "depth": 20},
        "static": {"stage": "mine", "runs": {"dense": "start-train"}, "miner": {"name": "topk", "depth": 10}},
    }
    spec = {"name": str(model(setting)), "query_length": 16, "document_length": LENGTH}
    tree = {
        "dataset": f"beir:{collection(setting, setting.size(50_000, 300), 90)}",
        "model": spec,
        "stages": {**start, **stages},
    }
    path, notes, store = setting.folder / "recipe.yaml", Notes(), Store(setting.folder / "store")
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    plan = make_plan(load_recipe(path))
    done = execute(plan, store, Options(device=setting.device, until=name), Watcher(progress=notes))
    return done.artifacts[name], notes.lines


def collection(setting: Setting, count: int, words: int) -> Path:
    """A BEIR folder of so many passages; the first words of a fifth of them are queries."""
    folder = setting.folder / "collection"
    if not (folder / "qrels" / "test.tsv").exists():
        (folder / "qrels").mkdir(parents=True, exist_ok=True)
        passages = texts(count, words)
        rows = [{"_id": f"d{row}", "title": "", "text": text} for row, text in enumerate(passages)]
        asked = [
            {"_id": f"q{row}", "text": " ".join(text.split()[:6])} for row, text in enumerate(passages[: count // 5])
        ]
        for name, lines in {"corpus": rows, "queries": asked}.items():
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for place, split in enumerate(("train", "dev", "test")):
            judged = "".join(
                f"q{row}\td{row}\t1\n" for row in range(len(asked)) if min(row % 10, 2) == (2, 1, 0)[place]
            )
            (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def demo(setting: Setting, name: str) -> Figures:
    """The demo to its report, cut unless full; then the same on the CPU: every metric of every row is within .01."""
    cuts = {} if setting.full else _cuts(name, setting.size(2000, 300))
    here, there = _metrics(setting, name, cuts, setting.device), _metrics(setting, name, cuts, "cpu")
    apart = {row: abs(value - there[row]) for row, value in here.items()}
    worst = max(apart, key=lambda row: apart[row], default="")
    told = f"{worst}: {here.get(worst)} here, {there.get(worst)} on the CPU"
    expect(here.keys() == there.keys() and apart.get(worst, 0.0) <= _SAME, told)
    most = {"largest difference from the CPU's": round(apart[worst], 4)} if apart else {}
    return {"cut": len(cuts), "passages": cuts.get("dataset.max_passages", "all"), "metrics": len(here), **most}


def _metrics(setting: Setting, name: str, cuts: Mapping[str, int], device: str) -> dict[str, float]:
    """Each metric of each row, after a run from the first step to the report."""
    settings = [word for path, value in cuts.items() for word in ("--set", f"{path}={value}")]
    kind = "cpu" if device == "cpu" else "gpu"
    shared, own = setting.folder.parent / f"store-{kind}", setting.folder / f"out-{kind}"
    places = ["--store", str(shared), "--output", str(own), "--device", device, "--overwrite"]
    command = [sys.executable, "-m", "hardneg", "recipe", "run", name, *places, *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode and ("not installed" in last or "pip install" in last):
        raise Skipped(last)
    expect(done.returncode == 0, f"exit code {done.returncode}: {last}")
    expect((own / "report.html").exists(), "there is no report")
    if not (own / "metrics.json").exists():
        return {}
    content = json.loads((own / "metrics.json").read_text(encoding="utf-8"))
    return means(content)


def means(content: Mapping[str, Any]) -> dict[str, float]:
    """Each row's metrics of a metrics file."""
    rows = content["metrics"].items()
    return {f"{row}, {metric}": float(value) for row, values in rows for metric, value in values.items()}


def _cuts(name: str, passages: int) -> dict[str, int]:
    """Two steps for each training, and so many passages where the dataset can be cut."""
    recipe = load_recipe(find_recipe(name))
    found = {
        f"stages.{step}.options.max_steps": 2
        for step, spec in recipe.stages.items()
        if hasattr(getattr(spec, "options", None), "max_steps")
    }
    return found | ({"dataset.max_passages": passages} if "beir" not in str(recipe.tree["dataset"]) else {})
