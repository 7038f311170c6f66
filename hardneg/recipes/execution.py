"""Run a plan: reuse steps from the store, run the others under a lock, and record the resources they use."""

import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hardneg import recipes
from hardneg.fields import Trait
from hardneg.recipes import Plan, Step, cached
from hardneg.records import DATASET, START, ArtifactError, DataError, HardnegError, ModelError, RecipeError, UsageError
from hardneg.records.wording import suggestion
from hardneg.registry import plugin_errors
from hardneg.runtime import Progress, Silent, cpu_name, from_first, world
from hardneg.stages import ArtifactInput, Engine, Local, StageContext, StageSpec, work
from hardneg.store import CHOICES, EARLIER, SCRATCH, Artifact, Store, damage, disk_errors, noted

_PATIENCE = 90.0  # seconds until another process's artifact must be visible


@dataclass(frozen=True)
class Options:
    """The options of a run.

    until: last step to run; None for all. force: steps to rerun, with their dependents. device: `cpu`, `cuda`, ...;
    None for the default. engine: computes the blocks of stages.
    """

    until: str | None = None
    force: tuple[str, ...] = ()
    device: str | None = None
    engine: Engine = field(default_factory=Local)


@dataclass(frozen=True)
class Watcher:
    """Callbacks before and after each step; `ends` gets the seconds, or None if the step did not run here."""

    begins: Callable[[Step], None] = lambda step: None
    ends: Callable[[Step, Artifact, float | None], None] = lambda step, artifact, seconds: None
    progress: Progress = field(default_factory=Silent)


@dataclass(frozen=True)
class Outcome:
    """The artifacts of the requested steps by name, and the names of the steps that ran."""

    artifacts: Mapping[str, Artifact]
    ran: tuple[str, ...]


def execute(plan: Plan, store: Store, options: Options, watcher: Watcher) -> Outcome:
    """Run every requested step that is forced or not in the store, in order.

    With several processes, each process calls this function. The first reads the store, holds the locks and commits
    artifacts. The others take part in stages that run in every process, and wait during the rest.

    Raises:
        UsageError: a stage cannot train in several processes, or the device does not exist.
        MissingDependency: an optional dependency of a step is not installed.
        RecipeError: the collection lacks something that a stage needs.
        HardnegError: a step failed; earlier steps are in the store, and the next run resumes the failed step.
    """
    steps, ran = plan.until(options.until), list[str]()
    again = {step.name for name in options.force for step in plan.dependents(name)}
    artifacts: dict[str, Artifact] = {}
    for step in steps if world().size > 1 else ():
        if step.spec.artifact_type == "model" and not step.spec.every_process:
            raise UsageError(f"{step.name}: {step.verb} must run in one process; remove {{processes}}", "processes")
    ahead = [step for step in steps if step.name in again or not (store.root / step.key).exists()]
    if ahead:
        recipes.check_packages(ahead, plan)
    if world().rank > 0:
        return _help(steps, ahead, plan, store, options)
    for step in steps:
        artifact = None if step.name in again else store.whole(step.key, watcher.progress.note)
        if artifact is not None:
            watcher.ends(step, artifact, None)
        else:
            artifact, seconds = _make(step, plan, store, artifacts, options, watcher)
            ran += [step.name] if seconds is not None else []
            watcher.ends(step, artifact, seconds)
        from_first("done")
        artifacts[step.name] = artifact
        _check_collection(step, ahead, artifact, plan)
        expected, actual = plan.recipe.sizes.documents, int(artifact.facts.get("documents", 0))
        if step.name == DATASET and expected not in (0, actual):
            watcher.progress.note(f"found {actual:,} documents, but sizes.documents is {expected:,}; check the data")
    return Outcome(artifacts, tuple(ran))


def _help(steps: Sequence[Step], ahead: Sequence[Step], plan: Plan, store: Store, options: Options) -> Outcome:
    artifacts, ran = dict[str, Artifact](), list[str]()
    for step in steps:
        if from_first(None) != "done":
            ran.append(step.name)
            context = _context(step, store.workspace(step.key), plan, artifacts, Watcher(), options)
            _run_stage(step, context, options.engine)
            from_first(None)
        end = time.monotonic() + _PATIENCE  # a network file system may take a minute to show it
        while not (artifact := cached(step, store)):
            if time.monotonic() > end:
                raise ArtifactError(f"{store.root / step.key}: not visible to all processes; use a shared disk")
            time.sleep(0.2)
        artifacts[step.name] = artifact
        _check_collection(step, ahead, artifact, plan)
    return Outcome(artifacts, tuple(ran))


def _check_collection(done: Step, ahead: Sequence[Step], artifact: Artifact, plan: Plan) -> None:
    """Raise RecipeError or DataError if a finished collection lacks something that a step needs."""
    if done.spec.artifact_type != "collection":
        return
    readers = [step for step in ahead if step.inputs.get(DATASET) == done.name]
    of_splits = [step for step in readers if Trait.OWN_QUERIES not in step.spec.traits(plan.recipe.view(step.name))]
    problems = list[str]()
    for step in of_splits:
        view = plan.recipe.view(step.name)
        known, found = {*step.spec.problems(view)}, step.spec.problems(replace(view, collection=artifact.facts))
        problems += [f"stages.{step.name}.{line}" for line in found if line not in known]
    if problems:
        raise RecipeError(str(plan.recipe.source), problems)
    without = {split for split, counts in artifact.facts["splits"].items() if not counts["queries"]}
    for step in of_splits:
        if (split := getattr(step.spec, "split", None)) is not None and not artifact.facts["splits"]:
            raise DataError(f"{step.name}: the dataset has no queries; generate some with stage write-queries")
        if split in without:
            raise work.no_queries(step.name, str(split))
        if split is not None and split not in (known := artifact.facts["splits"]):
            reason = f"the dataset has no split {split!r}{suggestion(str(split), known)}; available: {', '.join(known)}"
            raise DataError(f"{step.name}: {reason}")


def _make(
    step: Step, plan: Plan, store: Store, artifacts: Mapping[str, Artifact], options: Options, watcher: Watcher
) -> tuple[Artifact, float | None]:
    """Make the artifact of a step under its lock; return it and the seconds, or None if another process made it."""
    forced = any(step in plan.dependents(name) for name in options.force)
    with store.lock(step.key, partial(watcher.progress.note, f"{step.name}: waiting for another process to run it")):
        if not forced:
            store.recover(step.key)
            if artifact := cached(step, store):
                return artifact, None
        if forced or (store.root / step.key).exists():
            store.discard(step.key)
        step.check_contents()
        watcher.begins(step)
        started = time.monotonic()
        context = _context(step, store.workspace(step.key), plan, artifacts, watcher, options)
        if not (step.spec.resumes or step.spec.in_blocks):
            context.keep_only()
        if world().size > 1 and step.spec.every_process:
            from_first("work")
        with usage(world().size) as used, noted() as choices:
            facts = _run_stage(step, context, options.engine)
        seconds = time.monotonic() - started
        facts = {**facts, "seconds": round(facts.get(EARLIER, 0.0) + seconds, 3), "usage": used}
        facts |= {"choices": choices} if choices else {}
        facts |= plan.recipe.models.of(plan.recipe.model, fetched=True).facts if START in step.inputs.values() else {}
        try:
            step.check_contents()
        except HardnegError:
            store.discard(step.key)  # must not be resumed
            raise
        return store.commit(step.key, step.spec.artifact_type, facts, {**step.origin, "name": step.name}), seconds


def _context(
    step: Step, folder: Path, plan: Plan, artifacts: Mapping[str, Artifact], watcher: Watcher, options: Options
) -> StageContext[StageSpec]:
    inputs, models = dict[str, ArtifactInput](), plan.recipe.models
    for path, name in step.inputs.items():
        if name == START:
            inputs[path] = ArtifactInput(START, plan.start, None, model=plan.recipe.model)
        else:
            done, made = artifacts[name], plan.steps[name]
            traits = frozenset(made.spec.traits(plan.recipe.view(name)))
            inputs[path] = ArtifactInput(name, done.key, done.path, made.spec, None, done.facts, made.plugins, traits)
    ran = (plan.recipe.command, plan.recipe.model.name)
    return StageContext(
        step.name, step.spec, folder, inputs, step.plugins, watcher.progress, options.device, models, ran
    )


def _run_stage(step: Step, context: StageContext[StageSpec], engine: Engine) -> dict[str, Any]:
    """Run a stage and free its models. Raises ArtifactError if the disk failed or an input is damaged."""
    choices = noted(file=context.folder / SCRATCH / CHOICES)
    behind = (plugin for item in context.inputs.values() for plugin in (*item.plugins.values(), item.spec))
    plugins = [*context.plugins.values(), context.spec, *behind]
    gc.freeze()  # keeps the many objects of libraries out of the collection below
    try:
        with disk_errors(context.folder), plugin_errors([*plugins, engine]), choices:
            return dict((engine if step.spec.in_blocks else Local()).make(context))
    except Exception as error:
        told = isinstance(error, HardnegError) and not isinstance(error, (ArtifactError, DataError, ModelError))
        for item in context.inputs.values() if not (told or getattr(error.__cause__ or error, "errno", None)) else ():
            if item.path is not None and (problem := damage(item.path)):
                advice = f"hardneg artifacts check --repair --store {item.path.parent}"
                raise ArtifactError(f"{problem}; remove it with `{advice}`, and the next run recreates it") from error
        if isinstance(error, OSError):
            raise ArtifactError(f"{step.name}: {error}") from error
        raise
    finally:
        gc.collect()
        gc.unfreeze()


@contextmanager
def usage(processes: int) -> Iterator[dict[str, Any]]:
    """Measure the resources that a block uses; yield a dict that is filled at the end of the block.

    device: the name of the GPU, or `cpu` if none was used. processor: the CPU and the number of threads. peak_memory:
    the peak main memory of this process in bytes, during the block or, if the system cannot measure that, since the
    process started. peak_gpu_memory: bytes, only on a GPU. processes: the given number.
    """
    facts: dict[str, Any] = {}
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    if gpu := _cuda():
        gpu.reset_peak_memory_stats()
    yield facts
    said = os.environ.get("OMP_NUM_THREADS", "")  # compute threads, by default one per core
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = said if said.isdecimal() and int(said) else own
    processor, peak = f"{cpu_name()}, {threads} threads", _peak_memory()
    facts |= {"processes": processes, "device": "cpu", "processor": processor, "peak_memory": peak}
    if (cuda := _cuda()) and (peak := int(cuda.max_memory_allocated())):
        facts |= {"device": str(cuda.get_device_name()), "peak_gpu_memory": peak}


def _peak_memory() -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _cuda() -> Any:
    """Return the module `torch.cuda` if it is loaded and a GPU is in use; imports nothing."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
