"""A step of a plan on runs that no stage of it made, such as files of a user."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact
    from hardneg.recipe.plan import Step


def make_from(
    step: "Step", collection: "Artifact", runs: Mapping[str, Path], folder: Path, device: str | None = None
) -> dict[str, Any]:
    """Makes the step's artifact in a folder; facts: its own, and what of the runs is not in the collection.

    runs: files by the path of the input that each is.

    Raises:
        DataError: a run has a mistake, or none of its queries is in the split.
    """
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.collection import StoredCollection
    from hardneg.data.external_run import rewrite_run
    from hardneg.fields import DATASET
    from hardneg.layout import RUN
    from hardneg.registry import plugin_errors
    from hardneg.stages.context import ArtifactInput, StageContext

    stored, split, facts = StoredCollection.open(collection.path), vars(step.spec)["split"], dict[str, Any]()
    inputs = {DATASET: ArtifactInput(DATASET, collection.key, collection.path)}
    for field, path in runs.items():
        inputs[field] = ArtifactInput("run", "", folder / field)
        inputs[field].folder.mkdir()
        found = rewrite_run(path, stored, split, inputs[field].folder / RUN)
        label = field.partition(".")[2]
        facts |= {f"{label}: {name}" if label not in ("", "run") else name: count for name, count in found.items()}
    context = StageContext(step.name, step.spec, folder, inputs, step.plugins, Bars(stderr_console()), device)
    with plugin_errors(step.plugins.values()):
        return {**step.spec.make(context), **facts}
