"""The run folder: a finished recipe's results under stable names, as hard links into the store where that works."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import hardneg
from hardneg.artifacts import KEPT, MANIFEST, Artifact, Store, disk_errors
from hardneg.identity import digest
from hardneg.models.card import with_scores
from hardneg.recipe.plan import Plan
from hardneg.replacing import link_file, replace_text

LOCK = "recipe.lock.yaml"
_ANSWERS = {".jsonl": "answers.jsonl", "-metrics.json": "metrics.json"}


def publish(plan: Plan, artifacts: Mapping[str, Artifact], store: Store, out: Path) -> list[Path]:
    """Lays out models, `checkpoints/`, `index/`, `runs/`, `answers/`, `analyses/`, metrics, the report, the lock file.

    Of several runs at once, one after the other does so.

    Returns the paths that were written, the lock file last.
    """
    with disk_errors(out), store.lock(digest(str(out.resolve()))):
        out.mkdir(parents=True, exist_ok=True)
        store.keep(out, [step.key for step in plan.steps.values()])
        written = [link_file(source, out / name) for name, source in _files(plan, artifacts).items()]
        for name, made in artifacts.items():
            if made.kind in ("reranker", "reader"):
                written.append(link_folder(made.path / "model", out / f"{made.kind}s" / name))
            if (made.path / KEPT).is_dir():
                written.append(link_folder(made.path / KEPT, out / "checkpoints" / name))
        for kind, step in plan.recipe.outputs.items():
            if output := artifacts.get(step):
                source = output.path / kind if output.kind == "model" else output.path
                written.append(link_folder(source, out / kind))
        if (out / "metrics.json") in written and (out / "model") in written:
            _add_scores(out / "model" / "README.md", out / "metrics.json")
        lock = out / LOCK
        replace_text(lock, yaml.safe_dump(lock_content(plan), sort_keys=False, allow_unicode=True))
        return [*written, lock]


def lock_content(plan: Plan) -> dict[str, Any]:
    """The resolved recipe with every step's key: enough to run the same again, and to see what differs."""
    return {
        "hardneg": hardneg.__version__,
        "recipe": plan.recipe.name,
        "preset": plan.recipe.preset,
        "start_model": plan.start,
        "keys": plan.keys,
        "tree": dict(plan.recipe.tree),
    }


def _files(plan: Plan, artifacts: Mapping[str, Artifact]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    reports = [step for step in plan.steps.values() if step.spec.kind == "report" and step.name in artifacts]
    shown = {step.inputs["evaluation"] for step in reports}
    for name, artifact in artifacts.items():
        if artifact.kind == "run":
            files[f"runs/{name}.trec.gz"] = artifact.path / "run.trec.gz"
        elif artifact.kind == "metrics":
            place = f"metrics-{name}.json" if shown and name not in shown else "metrics.json"
            files[place] = artifact.path / "metrics.json"
        elif artifact.kind == "answers":
            files |= {f"answers/{name}{end}": artifact.path / source for end, source in _ANSWERS.items()}
        elif artifact.kind == "report":
            files["report.html"] = artifact.path / "report.html"
            files["report.md"] = artifact.path / "report.md"
        elif artifact.kind == "analysis":
            made = sorted(path for path in artifact.path.iterdir() if path.name != MANIFEST)
            files |= {f"analyses/{name}/{path.name}": path for path in made}
    return files


def _add_scores(card: Path, metrics: Path) -> None:
    """The test scores are known after the model is finished, so its card in the run folder gets them here."""
    scores = json.loads(metrics.read_text(encoding="utf-8"))["metrics"]
    replace_text(card, with_scores(card.read_text(encoding="utf-8"), scores))


def link_folder(source: Path, target: Path) -> Path:
    """Puts an artifact's files into `target`, which is replaced whole, as hard links or copies."""
    aside = target.with_name(target.name + ".new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for path in sorted(path for path in source.rglob("*") if path.is_file() and path.name != MANIFEST):
        link_file(path, aside / path.relative_to(source))
    if target.exists():
        shutil.rmtree(target)
    os.replace(aside, target)
    return target
