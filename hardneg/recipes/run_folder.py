"""The run folder: a finished recipe's results under stable names, as hard links into the store where that works."""

import json
import shlex
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import yaml

from hardneg import __version__
from hardneg.encoders.open.model_card import with_scores
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.fields import input_files
from hardneg.recipes.language import parsed
from hardneg.recipes.load import Recipe
from hardneg.recipes.plan import Plan
from hardneg.records import LOCK, METRICS, MODEL_FOLDER, DataError, counted
from hardneg.stages.evaluate import Evaluate
from hardneg.stages.report import row_of, steps_after
from hardneg.store import MANIFEST, Artifact, Store, digest, disk_errors, link_file, link_folder, outputs, replace_text

COMMAND = "recipe run"


def artifacts_of(folder: Path, store: Store) -> dict[str, Artifact]:
    """The artifacts in the store of the steps that `folder` was made of, in the order of its recipe.

    Raises:
        DataError: it is no run folder, or the store has none of its steps.
    """
    named = read_lock(folder)["keys"]
    artifacts = {name: artifact for name, key in named.items() if key.isalnum() and (artifact := store.find(key))}
    if not artifacts:
        raise DataError(
            f"{folder}: none of its steps is in the store {store.root}; name the right one with {{store}}", "store"
        )
    return artifacts


def next_steps(recipe: Recipe, folder: Path) -> list[tuple[str, str]]:
    """Return what to do next after the evaluation in a run folder, by sentence and command; empty without metrics."""
    if not (folder / METRICS).is_file():
        return []
    measured, stages = read_metrics(folder / METRICS), recipe.stages
    rows = {label: runs for spec in stages.values() if isinstance(spec, Evaluate) for label, runs in spec.runs.items()}
    rows = {label: runs for label, runs in rows.items() if label in measured.results}
    about, preset = row_of(recipe.outputs.get("model", ""), rows, stages), f" --preset {recipe.preset}"
    named = f"{shlex.quote(recipe.name)}{preset if recipe.preset else ''}"
    return steps_after(measured, rows, about, stages, str(folder), named)


def read_lock(folder: Path) -> dict[str, Any]:
    """The lock file of a finished run, with `recipe`, `preset`, `device` (`cpu` or `gpu`), `keys` by step, `tree`.

    measured: the key of the evaluation that the folder's metrics are of, None where no file says it.

    Raises:
        DataError: the folder has none, or it is damaged.
    """
    path = folder / LOCK
    try:
        lock = parsed(path.read_text(encoding="utf-8"))
        keys = {str(name): str(key) for name, key in lock["keys"].items()}
        words = {
            name: str(lock.get(name, "cpu" if name == "device" else "")) for name in ("recipe", "preset", "device")
        }
        return {**lock, **words, "measured": lock.get("measured"), "keys": keys, "tree": dict(lock.get("tree", {}))}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): give the folder of a finished recipe") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path}: damaged: run the recipe again") from None


def publish(plan: Plan, artifacts: Mapping[str, Artifact], store: Store, out: Path) -> list[Path]:
    """Lays out models, `checkpoints/`, `index/`, `runs/`, `answers/`, `analyses/`, metrics, report, lock.

    Of several runs at once, one after the other does so.

    Returns the paths that were written, the lock file last.

    Raises:
        ArtifactError: the disk is full, or the folder cannot be written.
    """
    alone = nullcontext() if store.read_only else store.lock(digest(str(out.resolve())))
    keys, tops = list(plan.keys.values()), [out / name for name in names(plan)]
    with disk_errors(out, "output"), alone, outputs.publish(store, COMMAND, out, keys, tops):
        out.mkdir(parents=True, exist_ok=True)
        published = _published(plan, artifacts)
        written = [link_file(source, out / name) for name, source in published.items() if source.suffix]
        folders = {name: source for name, source in published.items() if not source.suffix and source.is_dir()}
        written += [link_folder(source, out / name, {MANIFEST}) for name, source in folders.items()]
        made = {name: spec for name, spec in plan.recipe.stages.items() if name in artifacts}
        usual = (name for name, spec in made.items() if METRICS in spec.publishes(plan.recipe.view(name)))
        evaluation = next((name for name in usual if isinstance(made[name], Evaluate)), None)
        if evaluation is not None and (out / MODEL_FOLDER) in written:
            card = out / MODEL_FOLDER / "README.md"
            scores = json.loads((out / METRICS).read_text(encoding="utf-8"))["metrics"]
            spec = cast(Evaluate, plan.recipe.stages[evaluation])
            queries = "written query" if spec.on_written_queries(plan.recipe.view(evaluation)) else "query"
            over = f"{counted(artifacts[evaluation].facts['queries'], queries)} of split {spec.split}"
            replace_text(card, with_scores(card.read_text(encoding="utf-8"), scores, over))
        lock = out / LOCK
        used = {(artifact.facts.get("usage") or {}).get("device", "cpu") for artifact in artifacts.values()}
        content = lock_content(plan, "gpu" if used - {"cpu"} else "cpu")
        content["measured"] = plan.keys[evaluation] if evaluation else ""
        if evaluation is None and lock.is_file():
            with suppress(DataError):  # a damaged one says nothing of the metrics, and is written again
                content["measured"] = read_lock(out)["measured"]
        replace_text(lock, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        return [*written, lock]


def inputs_of(recipe: Recipe) -> list[Path]:
    """The files and folders that a recipe reads: itself, its dataset, its models; some may be no paths at all."""
    inputs = [str(recipe.source), recipe.model.name]
    for plugin in recipe.plugins.values():
        values = {field.name: getattr(plugin, field.name) for field in fields(plugin)}
        inputs += [str(value) for name, value in values.items() if name == "source" or isinstance(value, Path)]
    for name, spec in recipe.stages.items():
        network = spec.network(recipe.view(name))
        inputs += [network.name] if network else []
        inputs += [file for _, _, file in input_files(spec)]
    return [Path(name).expanduser() for name in dict.fromkeys(inputs) if name]


def names(plan: Plan) -> list[str]:
    """What `publish` may write into a run folder, by name, whichever steps are made. Folders end in "/"."""
    written = {METRICS, LOCK, *(f"{output}/" for output in plan.recipe.outputs)}
    for name, step in plan.steps.items():
        alone = replace(plan.recipe.view(name), stages={name: step.spec})
        for view in (alone, plan.recipe.view(name)):
            published = step.spec.publishes(view).items()
            written |= {target if Path(source).suffix else f"{target}/" for target, source in published}
    return sorted(written)


def lock_content(plan: Plan, device: str = "cpu") -> dict[str, Any]:
    """The resolved recipe with every step's key: enough to run the same again, and to see what differs.

    `device`: `gpu` where a GPU worked on any of its steps, else `cpu`.
    """
    return {
        "hardneg": __version__,
        "recipe": plan.recipe.name,
        "preset": plan.recipe.preset,
        "device": device,
        "start_model": plan.start,
        "keys": plan.keys,
        "tree": dict(plan.recipe.tree),
    }


def _published(plan: Plan, artifacts: Mapping[str, Artifact]) -> dict[str, Path]:
    """The path of an artifact by its name in the run folder: as the stages publish it, then the outputs."""
    recipe, paths = plan.recipe, dict[str, Path]()
    stages = {name: recipe.stages[name] for name in artifacts}
    for name, artifact in artifacts.items():
        published = recipe.stages[name].publishes(replace(recipe.view(name), stages=stages))
        paths |= {target: artifact.path / source for target, source in published.items()}
    for artifact_type, name in recipe.outputs.items():
        if output := artifacts.get(name):
            paths[artifact_type] = output.path / recipe.stages[name].parts[artifact_type]
    return paths
