"""The run folder: a recipe's results under stable names, hard-linked from the store where possible."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

from hardneg import __version__
from hardneg.encoders.open.model_card import with_scores
from hardneg.encoders.open.resolved import load_encoder, read_spec
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.fields import Trait
from hardneg.formats.segments import DELIMITER
from hardneg.formats.vectors import DocIds
from hardneg.indexes.candidate_scoring import pooled
from hardneg.protocols import Searcher
from hardneg.recipes import Plan, Recipe, check_recipe, named_recipes, parsed, run_command
from hardneg.records import DataError, Encoded, Hits, counted, layout
from hardneg.report.content import RecipeRun
from hardneg.stages.evaluate import Evaluate
from hardneg.stages.report import row_of, steps_after
from hardneg.store import MANIFEST, Artifact, Store, digest, disk_errors, link_file, link_folder, outputs, replace_text

COMMAND = "recipe run"


def artifacts_of(folder: Path, store: Store) -> dict[str, Artifact]:
    """Return the stored artifacts of a run folder's steps, in recipe order. Raises DataError if there are none."""
    if artifacts := _stored(read_lock(folder), store):
        return artifacts
    raise DataError(f"{folder}: the store {store.root} has no artifact of this run; choose another {{store}}", "store")


def _stored(lock: Mapping[str, Any], store: Store) -> dict[str, Artifact]:
    named = lock["keys"].items()
    return {name: artifact for name, key in named if key.isalnum() and (artifact := store.find(key))}


def next_steps(recipe: Recipe, folder: Path, diagnosed: bool = False) -> list[tuple[str, str]]:
    """Return next steps after the evaluation in a run folder: pairs of a sentence and a command; none without metrics.

    diagnosed: whether to omit the advice to run `hardneg diagnose`.
    """
    if not (folder / layout.METRICS).is_file():
        return []
    measured, stages = read_metrics(folder / layout.METRICS), recipe.stages
    rows = {label: runs for spec in stages.values() if isinstance(spec, Evaluate) for label, runs in spec.runs.items()}
    rows = {label: runs for label, runs in rows.items() if label in measured.results}
    about, command = row_of(recipe.outputs.get("model", ""), rows, stages), read_lock(folder)["command"]
    ran = RecipeRun(str(folder), command, recipe.model.name, diagnosed=diagnosed)
    return steps_after(measured, rows, about, stages, ran)


def read_lock(folder: Path) -> dict[str, Any]:
    """Read the lock file of a run: `recipe`, `preset`, `command`, `device` (`cpu` or `gpu`), `keys` by step, `tree`.

    `measured` is the key of the evaluation that wrote the folder's metrics; None if not recorded. Raises DataError if
    the file is missing or damaged.
    """
    path = folder / layout.LOCK
    try:
        lock = parsed(path.read_text(encoding="utf-8"))
        keys = {str(name): str(key) for name, key in lock["keys"].items()}
        known = lock.get("recipe") in named_recipes()  # earlier versions recorded no command
        command = run_command(lock["recipe"], str(lock.get("preset") or "")) if known else ""
        usual = {"recipe": "", "preset": "", "device": "cpu", "command": command}
        words = {name: str(lock.get(name, default)) for name, default in usual.items()}
        return {**lock, **words, "measured": lock.get("measured"), "keys": keys, "tree": dict(lock.get("tree", {}))}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give the folder of a finished recipe") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path}: damaged; rerun the recipe") from None


def publish(plan: Plan, artifacts: Mapping[str, Artifact], store: Store, out: Path) -> list[Path]:
    """Write models, `checkpoints/`, `index/`, `runs/`, `answers/`, `analyses/`, metrics, report and lock file to `out`.

    Concurrent runs take turns. Returns the paths written, the lock file last. Raises ArtifactError if writing fails.
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
        usual = (name for name, spec in made.items() if layout.METRICS in spec.publishes(plan.recipe.view(name)))
        evaluation = next((name for name in usual if isinstance(made[name], Evaluate)), None)
        if evaluation is not None and (out / layout.MODEL_FOLDER) in written:
            card = out / layout.MODEL_FOLDER / "README.md"
            scores = json.loads((out / layout.METRICS).read_text(encoding="utf-8"))["metrics"]
            spec = cast(Evaluate, plan.recipe.stages[evaluation])
            queries = "written query" if spec.on_written_queries(plan.recipe.view(evaluation)) else "query"
            over = f"{counted(artifacts[evaluation].facts['queries'], queries)} of split {spec.split}"
            replace_text(card, with_scores(card.read_text(encoding="utf-8"), scores, over))
        lock = out / layout.LOCK
        used = {(artifact.facts.get("usage") or {}).get("device", "cpu") for artifact in artifacts.values()}
        content = lock_content(plan, "gpu" if used - {"cpu"} else "cpu")
        content["measured"] = plan.keys[evaluation] if evaluation else ""
        if evaluation is None and lock.is_file():
            with suppress(DataError):  # a damaged lock file is replaced
                content["measured"] = read_lock(out)["measured"]
        replace_text(lock, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        return [*written, lock]


def names(plan: Plan) -> list[str]:
    """Return all names that `publish` may write into a run folder, whichever steps run; folder names end in "/"."""
    written = {layout.METRICS, layout.LOCK, *(f"{output}/" for output in plan.recipe.outputs)}
    for name, step in plan.steps.items():
        alone = replace(plan.recipe.view(name), stages={name: step.spec})
        for view in (alone, plan.recipe.view(name)):
            published = step.spec.publishes(view).items()
            written |= {target if Path(source).suffix else f"{target}/" for target, source in published}
    return sorted(written)


def lock_content(plan: Plan, device: str = "cpu") -> dict[str, Any]:
    """Return the content of the lock file: the resolved recipe and step keys. device: `gpu` if any step used one."""
    return {
        "hardneg": __version__,
        "recipe": plan.recipe.name,
        "preset": plan.recipe.preset,
        "command": plan.recipe.command,
        "device": device,
        "start_model": plan.start,
        "keys": plan.keys,
        "tree": dict(plan.recipe.tree),
    }


def _published(plan: Plan, artifacts: Mapping[str, Artifact]) -> dict[str, Path]:
    """Return paths in the store by name in the run folder: files published by stages, then the recipe's outputs."""
    recipe, paths = plan.recipe, dict[str, Path]()
    stages = {name: recipe.stages[name] for name in artifacts}
    for name, artifact in artifacts.items():
        published = recipe.stages[name].publishes(replace(recipe.view(name), stages=stages))
        paths |= {target: artifact.path / source for target, source in published.items()}
    for artifact_type, name in recipe.outputs.items():
        if output := artifacts.get(name):
            paths[artifact_type] = output.path / recipe.stages[name].parts[artifact_type]
    return paths


@dataclass(frozen=True)
class PublishedIndex:
    """An index of a finished recipe.

    stage: the stage that wrote the index. backend: the index plugin; None for an `encode` stage. model: the query
    encoder; None for an index of texts or imported vectors. segments: whether documents have several vectors.
    """

    stage: str
    folder: Path
    backend: Any
    model: ModelSpec | None
    segments: bool


def published_indexes(folder: Path, store: Store) -> list[PublishedIndex]:
    """Return the indexes of a run that exist in the run folder or in the store; the recipe's output index comes first.

    Raises DataError if the folder is not a run folder, RecipeError if this version of hardneg cannot read the recipe.
    """
    lock = read_lock(folder)
    recipe, artifacts = check_recipe(lock["tree"], folder / layout.LOCK, lock["preset"]), _stored(lock, store)

    def path(name: str, output: str) -> Path | None:
        """Return the folder of a stage's model or index, in the run folder or, failing that, in the store."""
        if recipe.outputs.get(output) == name and (folder / output).is_dir():
            return folder / output
        return artifacts[name].path / recipe.stages[name].parts.get(output, ".") if name in artifacts else None

    indexes = []
    for name in sorted(recipe.stages, key=lambda name: name != recipe.outputs.get("index", "")):
        spec, view, model = recipe.stages[name], recipe.view(name), None
        index_folder = path(name, layout.INDEX_FOLDER) if "index" in spec.parts else None
        if index_folder is None:
            continue
        encoder = view.query_model(name)
        if encoder == layout.START:
            model = recipe.model
        elif encoder and (model_folder := path(encoder, layout.MODEL_FOLDER)):
            model = read_spec(model_folder)
        segments = Trait.SEGMENTS in spec.traits(view)
        indexes.append(PublishedIndex(name, index_folder, view.plugin("backend"), model, segments))
    return indexes


@dataclass(frozen=True)
class OpenedIndex:
    """An open index that can be searched with query texts.

    names: the document id of each row. encoder: the query encoder; None for an index of texts.
    """

    searcher: Searcher
    names: Sequence[str]
    encoder: Any

    @classmethod
    def open(cls, index: PublishedIndex, device: str | None) -> "OpenedIndex":
        """Open an index and its query encoder. Raises ArtifactError or ModelError if either cannot be opened."""
        from hardneg.indexes import open_store
        from hardneg.indexes.exact import ExactOptions, ExactSearcher

        options, folder, numbers = ExactOptions(device=device), index.folder, dict[str, int]()
        met = list[str]()

        def rows(doc_ids: Sequence[str]) -> Any:
            """Number the document ids in order of first appearance, for an index that returns ids instead of rows."""
            for doc_id in doc_ids:
                if doc_id not in numbers:
                    numbers[doc_id] = len(met)
                    met.append(doc_id)
            return np.array([numbers[doc_id] for doc_id in doc_ids], np.int64)

        sharded = (folder / layout.SHARDS).exists()
        if index.backend is not None:
            searcher: Searcher = index.backend.open(folder, rows)
        elif open_store.form_in(folder) == "vectors" and not sharded:
            searcher = open_store.DenseIndex.open(folder).searcher
        else:
            searcher = open_store.open_store(folder, options)
        if isinstance(searcher, ExactSearcher):
            searcher = searcher.using(options, None)
        names: Sequence[str] = DocIds(folder / layout.DOC_IDS)
        if index.backend is not None and getattr(index.backend, "input", None) == "texts":
            names = met
        elif sharded:
            names = open_store.DenseIndex.open(folder).doc_ids
        if index.segments:
            names = list(dict.fromkeys(name.rpartition(DELIMITER)[0] for name in names))
            searcher = pooled(searcher, folder, names)
        return cls(searcher, names, None if index.model is None else load_encoder(index.model, device, "fp32"))

    def search(self, texts: Sequence[str], depth: int) -> Hits:
        """Return hits [Q, depth], the best documents for each of Q query texts; `rows` are positions in `names`."""
        wanted: Sequence[str] | Encoded = texts
        if self.encoder is not None:
            wanted = self.encoder.encode(texts, "query", EncodeOptions(precision="fp32"))
        return self.searcher.search(wanted, depth)
