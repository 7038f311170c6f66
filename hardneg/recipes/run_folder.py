"""The run folder: a finished recipe's results under stable names, as hard links into the store where that works.

Others go on from there; the command that fills it, and the artifacts that it came from, are here too.
"""

import importlib.metadata
import json
import os
import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

import hardneg
from hardneg.encoders.open.model_card import with_scores
from hardneg.fields import input_files
from hardneg.recipes.language import preset_names
from hardneg.recipes.yaml_load import find_recipe, is_shipped, named_recipes, parsed
from hardneg.records import DATASET, IR_METADATA, LOCK, METRICS, MODEL_FOLDER, counted, dataset_name, without_paths
from hardneg.records.errors import DataError
from hardneg.runtime import cpu_name
from hardneg.stages.evaluate import Evaluate
from hardneg.store import MANIFEST, Artifact, Store, digest, disk_errors, link_file, link_folder, replace_text
from hardneg.store.gc_roots import laid_out

if TYPE_CHECKING:
    from hardneg.recipes.load import Recipe
    from hardneg.recipes.plan import Plan


def default_folder(recipe: str, preset: str) -> Path:
    """The run folder of a recipe by default."""
    return Path("runs") / "-".join(filter(None, [recipe, preset]))


def maker(folder: str) -> str | None:
    """The command that makes `folder`, in a shipped recipe's default run folder; None where none does."""
    parts = Path(folder).parts
    for recipe in named_recipes() if len(parts) > 2 else ():
        for preset in preset_names(find_recipe(recipe)) if parts[1].startswith(recipe) else ():
            if parts[:2] == default_folder(recipe, preset).parts:
                return f"hardneg recipe run {recipe} --preset {preset}"
    return None


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


def read_lock(folder: Path) -> dict[str, Any]:
    """The lock file of a finished run, with `recipe`, `preset`, `device` (`cpu` or `gpu`), `keys` by step, `tree`.

    measured: the key of the evaluation that the folder's metrics are of, None where no file says it.

    Raises:
        DataError: the folder has none, or it is damaged.
    """
    path = folder / LOCK
    with yaml_errors(path):
        lock = parsed(path.read_text(encoding="utf-8"))
        keys = {str(name): str(key) for name, key in lock["keys"].items()}
        words = {
            name: str(lock.get(name, default)) for name, default in (("recipe", ""), ("preset", ""), ("device", "cpu"))
        }
        return {**lock, **words, "measured": lock.get("measured"), "keys": keys, "tree": dict(lock.get("tree", {}))}


@contextmanager
def yaml_errors(path: Path, advice: str = "give the folder of a finished recipe") -> Iterator[None]:
    """Raises DataError where a file of a run folder cannot be read in this block, or has not what it is read for."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): {advice}") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path}: damaged: run the recipe again") from None


COMMAND = "recipe run"


def publish(plan: "Plan", artifacts: Mapping[str, Artifact], store: Store, out: Path) -> list[Path]:
    """Lays out models, `checkpoints/`, `index/`, `runs/`, `answers/`, `analyses/`, metrics, report, metadata, lock.

    Of several runs at once, one after the other does so.

    Returns the paths that were written, the lock file last.

    Raises:
        ArtifactError: the disk is full, or the folder cannot be written.
    """
    alone = nullcontext() if store.read_only else store.lock(digest(str(out.resolve())))
    keys, tops = list(plan.keys.values()), [out / name for name in names(plan)]
    with disk_errors(out, "output"), alone, laid_out(store, COMMAND, out, keys, tops):
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
        metadata = out / IR_METADATA
        replace_text(metadata, as_yaml(ir_metadata(plan.recipe, artifacts)))
        lock = out / LOCK
        used = {(artifact.facts.get("usage") or {}).get("device", "cpu") for artifact in artifacts.values()}
        content = lock_content(plan, "gpu" if used - {"cpu"} else "cpu")
        content["measured"] = plan.keys[evaluation] if evaluation else ""
        if evaluation is None and lock.is_file():
            with suppress(DataError):  # a damaged one says nothing of the metrics, and is written again
                content["measured"] = read_lock(out)["measured"]
        replace_text(lock, as_yaml(content))
        return [*written, metadata, lock]


def inputs_of(recipe: "Recipe") -> list[Path]:
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


def names(plan: "Plan") -> list[str]:
    """What `publish` may write into a run folder, by name, whichever steps are made. Folders end in "/"."""
    written = {METRICS, LOCK, IR_METADATA, *(f"{output}/" for output in plan.recipe.outputs)}
    for name, step in plan.steps.items():
        alone = replace(plan.recipe.view(name), stages={name: step.spec})
        for view in (alone, plan.recipe.view(name)):
            published = step.spec.publishes(view).items()
            written |= {target if Path(source).suffix else f"{target}/" for target, source in published}
    return sorted(written)


def lock_content(plan: "Plan", device: str = "cpu") -> dict[str, Any]:
    """The resolved recipe with every step's key: enough to run the same again, and to see what differs.

    `device`: `gpu` where a GPU worked on any of its steps, else `cpu`.
    """
    return {
        "hardneg": hardneg.__version__,
        "recipe": plan.recipe.name,
        "preset": plan.recipe.preset,
        "device": device,
        "start_model": plan.start,
        "keys": plan.keys,
        "tree": dict(plan.recipe.tree),
    }


def as_yaml(tree: Mapping[str, Any]) -> str:
    """A tree as it stands in the run folder."""
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _published(plan: "Plan", artifacts: Mapping[str, Artifact]) -> dict[str, Path]:
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


TIES = "ascending document ids; the second of two equal scores is written as the next smaller float"
_LIBRARIES = ("faiss-cpu", "numpy", "pyserini", "ranx", "sentence-transformers", "torch", "transformers")
_GIB = 1 << 30


def ir_metadata(recipe: "Recipe", artifacts: Mapping[str, "Artifact"]) -> dict[str, Any]:
    """The metadata of a finished recipe, as a tree for YAML; artifacts: by stage."""
    evaluations = [spec for spec in recipe.stages.values() if isinstance(spec, Evaluate)]
    measures = list(dict.fromkeys(name for spec in evaluations for name in spec.metrics))
    tests = ["t-test", "permutation"] if any(len(spec.runs) > 1 for spec in evaluations) else []
    loaders = {stage: spec.loader for stage, spec in recipe.collections.items()}
    names = {
        stage: dataset_name(":".join(filter(None, [loader.name, str(loader.options.get("source") or "")])))
        for stage, loader in loaders.items()
    }
    trains = any(spec.artifact_type in ("model", "reranker") for spec in recipe.stages.values())
    training = {"training data": [{"name": name} for name in dict.fromkeys(names.values())]} if trains else {}
    preset = f" --preset {recipe.preset}" if recipe.preset else ""
    called = recipe.name if is_shipped(recipe.source) else shlex.quote(recipe.source.name)
    seconds = {name: float(artifact.facts.get("seconds") or 0) for name, artifact in artifacts.items()}
    return {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": "-".join(filter(None, [recipe.name, recipe.preset])),
        "platform": _platform(artifacts.values()),
        "research goal": {
            "description": without_paths(recipe.title),
            "evaluation": {
                **({"reported measures": measures} if measures else {}),
                **(
                    {"significance test": [{"name": n, "correction method": "holm-bonferroni"} for n in tests]}
                    if tests
                    else {}
                ),
            },
        },
        "implementation": {
            "executable": {"cmd": f"hardneg recipe run {called}{preset}", "settings": LOCK},
            "source": {"lang": ["Python"]},
        },
        "method": {"automatic": True, "score ties": TIES, "retrieval": list(_retrieval(recipe, artifacts))},
        "actor": {"role": "experimenter"},
        "data": {"test collection": {"name": names[DATASET]}, **training},
        "resources": {
            "runtime": {"wallclock": f"{sum(seconds.values()):.1f} s"},
            "steps": {name: f"{taken:.1f} s" for name, taken in seconds.items() if taken},
        },
    }


def _platform(artifacts: Iterable["Artifact"]) -> dict[str, Any]:
    """This machine, the GPUs that any step was made on, and the versions of what computes."""
    used = {usage["device"] for artifact in artifacts if (usage := artifact.facts.get("usage"))} - {"cpu"}
    versions = []
    for name in ("hardneg", *_LIBRARIES):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name}=={importlib.metadata.version(name)}")
    cpu = {"model": cpu_name(), "architecture": platform.machine(), "number of cores": os.cpu_count() or 1}
    hardware = {"cpu": cpu, "ram": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIB:.1f} GB"}
    return {
        "hardware": {**hardware, "gpu": {"model": ", ".join(sorted(used))}} if used else hardware,
        "operating system": {
            "kernel": f"{platform.system()} {platform.release()}",
            "distribution": platform.platform(terse=True),
        },
        "software": {
            "libraries": {"python": [f"python=={platform.python_version()}", *versions[1:]]},
            "retrieval toolkit": versions[:1],
        },
    }


def _retrieval(recipe: "Recipe", artifacts: Mapping[str, "Artifact"]) -> Iterator[dict[str, Any]]:
    """The stages that rank, with what their recipe sets."""
    for name, spec in recipe.stages.items():
        if name in artifacts and spec.artifact_type == "run":
            options = spec.model_dump(mode="json", exclude_defaults=True, exclude={"stage"})
            files = [file for _, _, file in input_files(spec)]
            texts = {key: without_paths(value, files) for key, value in options.items() if value is not None}
            yield {"name": name, "method": spec.verb, **texts}
