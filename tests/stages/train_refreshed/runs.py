"""A training of a recipe, made, and what it keeps of its steps."""

import json
from pathlib import Path
from typing import Any

from noted import Notes

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.store import Artifact, Store


def make(recipe: Path, store: Store, name: str, *settings: str) -> tuple[Artifact, list[str]]:
    notes = Notes()
    plan = make_plan(load_recipe(recipe, settings=settings))
    made = execute(plan, store, Options(device="cpu", until=name), Watcher(progress=notes))
    return made.artifacts[name], notes.lines


def uses(artifact: Artifact) -> list[tuple[Any, Any]]:
    lines = (artifact.path / "history.jsonl").read_text().splitlines()
    return [(record.get("refresh"), record.get("lag")) for record in map(json.loads, lines)]


def weights(artifact: Artifact) -> bytes:
    return (artifact.path / "model" / "model.safetensors").read_bytes()
