"""What functions keep in the store: content handed over in memory, under its digest; stages made from given runs."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hardneg.records import DATASET, RUN
from hardneg.store import Artifact, Store, digest, file_digest, tree_digest

if TYPE_CHECKING:
    from hardneg.functions.session import Session
    from hardneg.recipes import Plan


def keep_content(store: Store, artifact_type: str, write: Callable[[Path], object]) -> Artifact:
    """What `write` writes into an empty folder, as an artifact under the digest of its bytes.

    Raises:
        ArtifactError: the store cannot be written.
    """
    name = uuid4().hex
    with store.lock(name):
        folder = store.workspace(name)
        try:
            write(folder)
            origin = {"stage": artifact_type, "content": tree_digest(folder), "name": artifact_type}

            def move(target: Path) -> None:
                for path in folder.iterdir():
                    os.replace(path, target / path.name)

            return keep_result(store, artifact_type, origin, move)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            (store.root / "locks" / name).unlink(missing_ok=True)


def keep_result(
    store: Store, artifact_type: str, origin: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any] | None]
) -> Artifact:
    """The artifact of an origin, made in an empty folder unless the store has it; `make` may return its facts."""
    key = digest({name: value for name, value in origin.items() if name != "name"})
    with store.lock(key):
        store.recover(key)
        if artifact := store.whole(key):
            return artifact
        store.discard(key)
        facts = make(store.workspace(key))
        return store.commit(key, artifact_type, facts or {}, origin)


def make_dataset(plan: "Plan", session: "Session") -> Artifact:
    """The stored collection of a plan, read now unless the store has it."""
    return session.make(plan, DATASET).artifacts[DATASET]


def make_from(
    plan: "Plan", stage: str, dataset: Artifact, runs: Mapping[str, Path], session: "Session"
) -> tuple[Artifact, Mapping[str, Any]]:
    """The artifact of a stage on given runs, and with its facts what of the runs is not in the collection.

    Its key is the digest of what the stage's own would be, with the runs' content in place of their steps. `runs` are
    files by the path of their input.

    Raises:
        DataError: a run has a mistake, or none of its queries is in the split.
    """
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.runs import rewrite_run
    from hardneg.registry import plugin_errors
    from hardneg.stages.base import ArtifactInput, StageContext

    step, collection, facts = plan.steps[stage], StoredCollection.open(dataset.path), dict[str, Any]()
    inputs = {DATASET: ArtifactInput(DATASET, dataset.key, dataset.path)}

    def make(folder: Path) -> Mapping[str, Any]:
        context = StageContext(step.name, step.spec, folder, inputs, step.plugins, session.progress, session.device)
        with plugin_errors(step.plugins.values()):
            made = session.options().engine.make(context)
        step.check_contents()
        return made

    with TemporaryDirectory() as aside:
        for name, path in runs.items():
            (folder := Path(aside) / name).mkdir()
            left_out = rewrite_run(path, collection, vars(step.spec)["split"], folder / RUN)
            inputs[name] = ArtifactInput("run", file_digest(folder / RUN), folder)
            label = name.partition(".")[2]
            facts |= {f"{label}: {key}" if label not in ("", "run") else key: count for key, count in left_out.items()}
        origin = {**step.origin, "inputs": {name: each.key for name, each in inputs.items()}, "name": step.name}
        artifact = keep_result(session.store, step.spec.artifact_type, origin, make)
    return artifact, {**artifact.facts, **facts}
