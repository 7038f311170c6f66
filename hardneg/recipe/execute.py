"""Runs a plan's steps: what the store has is taken, the rest is made, one lock a step."""

import errno
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hardneg.artifacts import Artifact, Store, disk_errors
from hardneg.errors import ArtifactError
from hardneg.progress import Progress, Silent
from hardneg.recipe.plan import Plan, Step
from hardneg.stages.specs import START
from hardneg.stages.work import Input, Work, empty


@dataclass(frozen=True)
class Options:
    """until: the last step to make. force: steps to make again, with all that need them. device: `cpu`, `cuda`, ..."""

    until: str | None = None
    force: tuple[str, ...] = ()
    device: str | None = None


@dataclass(frozen=True)
class Watcher:
    """What is told while a plan runs: before a step, after it (with seconds; None when it was in the store)."""

    begins: Callable[[Step], None] = lambda step: None
    ends: Callable[[Step, Artifact, float | None], None] = lambda step, artifact, seconds: None
    progress: Progress = field(default_factory=Silent)


@dataclass(frozen=True)
class Outcome:
    """The artifacts of all steps that were asked for, and the names of those that ran."""

    artifacts: Mapping[str, Artifact]
    ran: tuple[str, ...]


def execute(plan: Plan, store: Store, options: Options, watcher: Watcher) -> Outcome:
    """Makes every step that is not in the store, in order.

    Raises:
        HardnegError: a step failed; what was finished before it is kept, and what it left is gone on from.
    """
    steps = plan.until(options.until)
    again = {step.name for name in options.force for step in plan.dependents(name)}
    artifacts: dict[str, Artifact] = {}
    ran: list[str] = []
    for step in steps:
        artifact = None if step.name in again else _take(step, store, watcher)
        if artifact is not None:
            watcher.ends(step, artifact, None)
        else:
            artifact, seconds = _make(step, plan, store, artifacts, _Run(options, watcher, step.name in again))
            ran += [step.name] if seconds is not None else []
            watcher.ends(step, artifact, seconds)
        artifacts[step.name] = artifact
    return Outcome(artifacts, tuple(ran))


@dataclass(frozen=True)
class _Run:
    options: Options
    watcher: Watcher
    forced: bool


def _take(step: Step, store: Store, watcher: Watcher) -> Artifact | None:
    try:
        return store.find(step.key)
    except ArtifactError as error:
        if "newer hardneg" in str(error):
            raise
        watcher.progress.note(f"{error}; it is made again")
        return None


def _make(
    step: Step, plan: Plan, store: Store, artifacts: Mapping[str, Artifact], run: _Run
) -> tuple[Artifact, float | None]:
    def waiting() -> None:
        run.watcher.progress.note(f"{step.name}: another process is making it; waiting")

    with store.lock(step.key, waiting):
        if not run.forced and (made := _take_quietly(step, store)):
            return made, None
        store_has_leftovers = store.path(step.key).exists()
        if run.forced or store_has_leftovers:
            store.discard(step.key)
        run.watcher.begins(step)
        started = time.monotonic()
        folder = store.workspace(step.key)
        if not step.spec.resumes:
            empty(folder)
        work = Work(
            step.name,
            step.spec,
            folder,
            _inputs(step, plan, artifacts),
            step.plugins,
            run.watcher.progress,
            run.options.device,
        )
        facts = _run_stage(step, work)
        seconds = time.monotonic() - started
        facts = {**facts, "seconds": round(seconds, 3)}
        return store.commit(step.key, step.spec.kind, facts, {**step.origin, "name": step.name}), seconds


def _take_quietly(step: Step, store: Store) -> Artifact | None:
    try:
        return store.find(step.key)
    except ArtifactError:
        return None


def _run_stage(step: Step, work: Work) -> dict[str, Any]:
    module = importlib.import_module(f"hardneg.stages.{step.verb}")
    with disk_errors(work.folder):
        try:
            return dict(module.run(work))
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT}:
                raise
            raise ArtifactError(f"{step.name}: {error}") from error


def _inputs(step: Step, plan: Plan, artifacts: Mapping[str, Artifact]) -> dict[str, Input]:
    found = {}
    for path, name in step.inputs.items():
        if name == START:
            found[path] = Input(START, plan.start, None, model=plan.recipe.model)
        else:
            made, source = artifacts[name], plan.steps[name]
            found[path] = Input(name, made.key, made.path, source.spec, facts=made.facts, plugins=source.plugins)
    return found
