"""Artifacts of stages on runs that no stage made, such as files of a user."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.content_store import keep_result
from hardneg.api.workplace import Workplace
from hardneg.records.layout import RUN
from hardneg.store.artifacts import Artifact
from hardneg.store.digest import file_digest

if TYPE_CHECKING:
    from hardneg.recipe.plan import Plan
    from hardneg.verbs.shared.context import ArtifactInput


def make_dataset(plan: "Plan", workplace: Workplace) -> Artifact:
    """The stored collection of a plan, read now unless the store has it."""
    from hardneg.records.layout import DATASET

    return workplace.make(plan, DATASET).artifacts[DATASET]


def make_from(
    plan: "Plan", stage: str, dataset: Artifact, runs: Mapping[str, Path], workplace: Workplace
) -> tuple[Artifact, Mapping[str, Any]]:
    """The artifact of a stage on given runs, and with its facts what of the runs is not in the collection.

    Its key is the digest of what the stage's own would be, with the runs' content in place of their steps. `runs` are
    files by the path of their input.

    Raises:
        DataError: a run has a mistake, or none of its queries is in the split.
    """
    from hardneg.records.layout import DATASET
    from hardneg.verbs.shared.context import ArtifactInput

    step, facts = plan.steps[stage], dict[str, Any]()
    with TemporaryDirectory() as folder:
        inputs = {DATASET: ArtifactInput(DATASET, dataset.key, dataset.path)}
        for name, path in runs.items():
            inputs[name], left_out = _rewritten(path, dataset, vars(step.spec)["split"], Path(folder) / name)
            label = name.partition(".")[2]
            facts |= {f"{label}: {key}" if label not in ("", "run") else key: count for key, count in left_out.items()}
        keys = {name: each.key for name, each in inputs.items()}
        origin = {**step.origin, "inputs": keys, "name": step.name}
        make = partial(_make, plan, stage, inputs, workplace=workplace)
        artifact = keep_result(workplace.store, step.spec.artifact_type, origin, make)
    return artifact, {**artifact.facts, **facts}


def _rewritten(path: Path, dataset: Artifact, split: str, folder: Path) -> "tuple[ArtifactInput, dict[str, int]]":
    """A run as a stage reads it, under the digest of its content; and what of it is not in the collection."""
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.runs import rewrite_run
    from hardneg.verbs.shared.context import ArtifactInput

    folder.mkdir()
    left_out = rewrite_run(path, StoredCollection.open(dataset.path), split, folder / RUN)
    return ArtifactInput("run", file_digest(folder / RUN), folder), left_out


def _make(
    plan: "Plan", stage: str, inputs: "Mapping[str, ArtifactInput]", folder: Path, workplace: Workplace
) -> Mapping[str, Any]:
    from hardneg.registry.plugins import plugin_errors
    from hardneg.verbs.shared.context import StageContext

    step = plan.steps[stage]
    context = StageContext(step.name, step.spec, folder, inputs, step.plugins, workplace.progress, workplace.device)
    with plugin_errors(step.plugins.values()):
        facts = workplace.options().engine.make(context)
    step.check_contents()
    return facts
