"""The run folder: a finished recipe's results under stable names, as hard links into the store where that works."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

import hardneg
from hardneg.artifacts import KEPT, MANIFEST, Artifact, Store, disk_errors
from hardneg.atomic_write import link_file, link_folder, replace_text
from hardneg.digest import digest
from hardneg.layout import LOCK, QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN
from hardneg.models.card import with_scores
from hardneg.recipe.plan import Plan
from hardneg.roots import laid_out

COMMAND = "recipe run"
_ANSWERS = {".jsonl": "answers.jsonl", "-metrics.json": "metrics.json"}
_PLACES = {
    "model": ("checkpoints",),
    "reranker": ("rerankers", "checkpoints"),
    "reader": ("readers", "checkpoints"),
    "analysis": ("analyses",),
}
"""The folders of a run folder in which an artifact of a kind has one."""


def publish(plan: Plan, artifacts: Mapping[str, Artifact], store: Store, out: Path) -> list[Path]:
    """Lays out models, `checkpoints/`, `index/`, `runs/`, `answers/`, `analyses/`, metrics, the report, the lock file.

    Of several runs at once, one after the other does so.

    Returns the paths that were written, the lock file last.

    Raises:
        ArtifactError: the disk is full, or the folder cannot be written.
    """
    alone = nullcontext() if store.read_only else store.lock(digest(str(out.resolve())))
    keys, tops = list(plan.keys.values()), [out / name for name in names(plan)]
    with disk_errors(out, "--output"), alone, laid_out(store, COMMAND, out, keys, tops):
        out.mkdir(parents=True, exist_ok=True)
        written = [link_file(source, out / name) for name, source in _files(plan, artifacts).items()]
        written += [link_folder(source, out / name, {MANIFEST}) for name, source in _folders(plan, artifacts).items()]
        if (out / "metrics.json") in written and (out / "model") in written:
            _add_scores(out / "model" / "README.md", out / "metrics.json")
        lock = out / LOCK
        replace_text(lock, yaml.safe_dump(lock_content(plan), sort_keys=False, allow_unicode=True))
        return [*written, lock]


def names(plan: Plan) -> list[str]:
    """What `publish` may write into a run folder, by name; of an analysis, its folder. Folders end in "/"."""
    found = {
        "metrics.json",
        REPORT_HTML,
        REPORT_MARKDOWN,
        QUERY_TABLE,
        LOCK,
        *(f"{kind}/" for kind in plan.recipe.outputs),
    }
    for name, step in plan.steps.items():
        kind = step.spec.kind
        found |= {f"{folder}/{name}/" for folder in _PLACES.get(kind, ())}
        found |= {f"runs/{name}.trec.gz"} if kind == "run" else set()
        found |= {f"answers/{name}{end}" for end in _ANSWERS} if kind == "answers" else set()
        found |= {f"metrics-{name}.json"} if kind == "metrics" else set()
    return sorted(found)


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
            files |= {name: artifact.path / name for name in (REPORT_HTML, REPORT_MARKDOWN, QUERY_TABLE)}
        elif artifact.kind == "analysis":
            made = sorted(path for path in artifact.path.iterdir() if path.name != MANIFEST)
            files |= {f"analyses/{name}/{path.name}": path for path in made}
    return files


def _folders(plan: Plan, artifacts: Mapping[str, Artifact]) -> dict[str, Path]:
    folders: dict[str, Path] = {}
    for name, made in artifacts.items():
        if made.kind in ("reranker", "reader"):
            folders[f"{made.kind}s/{name}"] = made.path / "model"
        if (made.path / KEPT).is_dir():
            folders[f"checkpoints/{name}"] = made.path / KEPT
    for kind, step in plan.recipe.outputs.items():
        if output := artifacts.get(step):
            folders[kind] = output.path / kind if output.kind == "model" else output.path
    return folders


def _add_scores(card: Path, metrics: Path) -> None:
    """The test scores are known after the model is finished, so its card in the run folder gets them here."""
    scores = json.loads(metrics.read_text(encoding="utf-8"))["metrics"]
    replace_text(card, with_scores(card.read_text(encoding="utf-8"), scores))
