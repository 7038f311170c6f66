"""The session of a command, which checks outputs, prints plans and steps, and coordinates several processes."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args, get_origin

import typer

from hardneg import recipes
from hardneg.cli import console
from hardneg.cli.adaptor import SHARED, flag, tell_once
from hardneg.cli.console import say
from hardneg.functions.arguments import Arg, plugin_setting
from hardneg.functions.session import Session, usual_store
from hardneg.records import HardnegError, UsageError, errors, layout, types, wording
from hardneg.registry import configure
from hardneg.report.table import Table
from hardneg.runtime import World, check_device, distributed, world
from hardneg.store import Artifact, Outputs, Store, Target, Words

if TYPE_CHECKING:
    from hardneg.stages import Engine

_LOST = 75
"""The exit code of a process that stops because another process has ended."""
_GRACE = 5.0
"""Seconds to wait for the launcher to end this process after another process has died."""


@dataclass
class TerminalSession(Session):
    """The session of a command.

    command: the command's name. targets: returns the outputs, or raises UsageError. plans: 0 runs the steps, 1 only
    shows them, 2 shows them as JSON. held: contexts that are closed when the command ends.
    """

    command: str = ""
    targets: Callable[[], Sequence[Target]] = tuple
    overwrite: bool = False
    plans: int = 0
    held: ExitStack = field(default_factory=ExitStack)

    def tell(self, note: str) -> None:
        """Print a note on stderr, in the first process only."""
        tell_once(note)

    def begin(self, recipe: Any, reads: Sequence[Path] = ()) -> Any:
        """Check and reserve the outputs, and return the plan of the recipe; with `plans`, show the plan and exit.

        Without a recipe, return None, and use a temporary store if the store is read-only. Raises UsageError if the
        recipe or an output name has mistakes, or an output is an input or another command's file.
        """
        wrong, plan = list[UsageError](), None
        try:
            targets = self.targets()
        except UsageError as error:
            wrong.append(error)
        try:
            checked = None if recipe is None else recipe.check(tell_once)
        except UsageError as error:
            wrong.append(error)
        if wrong:
            names = [name for each in wrong for name in each.names]
            raise wrong[0] if len(wrong) == 1 else UsageError("\n".join(each.message for each in wrong), *names)
        if checked is not None:
            plan = recipes.make_plan(checked)
            if self.plans:
                show_plan(plan, self.store, as_json=self.plans == 2)
                raise typer.Exit
        self.outputs = store_outputs(self.command, targets, reads, self.overwrite, self.store, plan)
        self.held.enter_context(self.outputs.reserve())
        with suppress(OSError):
            self.store.root.mkdir(parents=True, exist_ok=True)
        if plan is None and not (self.store.root.is_dir() and not self.store.read_only):
            self.store = Store(Path(self.held.enter_context(TemporaryDirectory())))
        return plan

    def make(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """Create or reuse the artifacts of the steps up to `until`, and print a line per step. force: steps to rerun.

        All processes must call it. Raises UsageError if this process and the first one see different files.
        """
        from hardneg.stages import Local

        if distributed.from_first(plan.keys) != plan.keys:
            raise UsageError(f"process {world().rank} and process 0 see different files of the model or the dataset")
        options = recipes.Options(until, tuple(force), self.device, self.engine or Local())
        if world().rank > 0:
            return recipes.execute(plan, self.store, options, recipes.Watcher())
        count, total = 0, len(plan.until(until))

        def begins(step: "recipes.Step") -> None:
            words = dict.fromkeys(filter(None, (step.name, step.verb, step.spec.purpose)))  # a name may be a verb
            say(f"[{count + 1}/{total}] {': '.join(words)}", err=True)

        def ends(step: "recipes.Step", artifact: Artifact, seconds: float | None) -> None:
            nonlocal count
            count += 1
            if seconds is None:
                return say(f"[{count}/{total}] {step.name}: in the store", err=True)
            facts = {name: each for name, each in artifact.facts.items() if not isinstance(each, bool)}
            whole = [name for name, each in facts.items() if isinstance(each, int | str) and name != "seconds"]
            told = ", ".join(f"{name} {facts[name]}" for name in whole)
            say(f"    {wording.duration(seconds)}{f'; {told}' if told else ''}", err=True)

        return recipes.execute(plan, self.store, options, recipes.Watcher(begins, ends, self.progress))


def open_store(path: Path | None) -> Store:
    """Open the store at `path`, or the default store if None; print a note if `path` does not exist yet.

    Raises ArtifactError if the path is a file, or cannot be used as a store.
    """
    store = usual_store(path)
    if path is not None and not store.root.exists() and world().rank == 0:
        say(f"note: no store at {path} yet; it will be created", err=True)
    return store


def opened(
    store: Path | None,
    device: str | None = None,
    settings: Sequence[str] | None = (),
    engine: str | None = None,
    options: Sequence[str] | None = (),
) -> TerminalSession:
    """Open a session; None means the default store, device or engine. options: engine options as KEY=VALUE.

    Raises:
        PluginError: the engine does not exist, or has no such option.
        UsageError: no such device, an option that is not KEY=VALUE, or several processes with a non-built-in engine.
    """
    if device is not None:
        check_device(device)
    configured: Engine | None = None
    if options or engine not in (None, layout.LOCAL):
        if engine not in (None, layout.LOCAL) and world().size > 1:
            problem = "it starts its own processes; run hardneg without torchrun or accelerate"
            raise UsageError(f"--engine {engine}: {problem}")
        setting = types.PluginSetting(engine or layout.LOCAL, plugin_options(options or (), "--engine-option"))
        configured = configure("engine", setting)
    return TerminalSession(
        open_store(store), device, settings=settings or (), progress=console.Bars(), engine=configured
    )


def plugin_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """Parse KEY=VALUE texts into options; each value is YAML. option: the flag to name in errors.

    Raises:
        UsageError: a text is not KEY=VALUE, or its value is not YAML.
    """
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be KEY=VALUE")
        try:
            options[key] = recipes.parse_setting(value)
        except ValueError as error:
            raise UsageError(f"{option} {key}: {error}") from None
    return options


def metric_names(texts: Sequence[str]) -> list[str]:
    """Split texts at commas into names of metrics; empty names are dropped."""
    return [name for text in texts for name in text.split(",") if name]


def values(arguments: Mapping[str, Arg], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function arguments given on the command line, converted, by name; shared ones are left out.

    Raises UsageError if a text has the wrong form, or an option belongs to a plugin that was not given.
    """
    own = {name: each for name, each in arguments.items() if name not in SHARED}
    read = {name: args[name] for name in own if args.get(name) not in (None, [], ())}
    for name, raw in read.items():
        if get_origin(own[name].cli) is dict:
            read[name] = _mapping(own[name], raw)
        elif own[name].metrics and isinstance(raw, list):
            read[name] = metric_names(raw)
    for path, value in plugin_options(args["option"]).items() if args.get("option") else ():
        names = [each.name for each in own.values() if each.plugin not in ("", "datasets", "engine")]
        plugin, dot, key = path.partition(".")
        if dot and plugin not in names:
            raise UsageError(f"--option {path}: no such plugin in this command; available: {', '.join(names)}")
        plugin, key = (plugin, key) if dot else (names[0], path)
        if plugin not in read:
            raise UsageError(f"--option {key}: this option belongs to {{{plugin}}}, which was not given", plugin)
        read[plugin] = {**plugin_setting(plugin, read[plugin]), key: value}
    return read


def _mapping(argument: Arg, texts: Sequence[str]) -> dict[str, Any]:
    """Parse the values of a repeatable NAME=VALUE option: YAML, numbers, or lists of numbers."""
    value_type = get_args(argument.cli)[1]
    if value_type is Any:
        return plugin_options(texts, flag(argument))
    read: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            numbers = [float(each) for each in value.split(",")]
        except ValueError:
            numbers = []
        several = get_origin(value_type) is list
        if not equals or not numbers or not all(map(isfinite, numbers)) or (len(numbers) > 1 and not several):
            raise UsageError(f"{text}: must be NAME=NUMBER")
        read[name] = numbers if several else numbers[0]
    return read


def store_outputs(
    command: str,
    targets: Sequence[Target],
    inputs: Sequence[Path],
    overwrite: bool,
    store: Store | None = None,
    plan: "recipes.Plan | None" = None,
) -> Outputs:
    """Return a command's outputs. store: records them; None for the default store. plan: adds its inputs and keys."""
    keys: list[str] = []
    if plan is not None:
        inputs, keys = [*recipes.inputs_of(plan.recipe), *inputs], list(plan.keys.values())
    known, words = open_store(None) if store is None else store, Words("--output", "--overwrite", "hardneg {}")
    return Outputs(command, targets, inputs, known, overwrite, keys, words, lambda text: say(f"note: {text}", err=True))


def free_bytes(path: Path) -> int:
    """Return the free bytes on the disk that holds a path; the path need not exist."""
    return shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists())).free


def own_device(here: World, device: str | None) -> str:
    """Return `cpu` or the GPU of process `here`. Raises UsageError if GPUs are too few or `device` is a single GPU."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu":
        return device
    if device != "cuda":
        raise UsageError(f"--device {device}: with several processes, use `cpu`, or `cuda` with one GPU per process")
    if (gpu := distributed.gpu_of(here)) is None:
        there = f"{wording.counted(torch.cuda.device_count(), 'GPU')}; start one process per GPU, or use --device cpu"
        raise UsageError(f"{here.local_size} processes on a machine with {there}")
    return f"cuda:{gpu}"


@contextmanager
def together(device: str | None) -> Iterator[str | None]:
    """Join the other processes, if any, and yield the device of this one; only one process reports an error."""
    here = world()
    if here.size == 1:
        yield device
        return
    for number in (signal.SIGTERM,) if here.rank == 0 else (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # the launcher reports it; waiting in C code must not delay the end
    distributed.join(on_cpu=device == "cpu")
    ending = threading.Event()
    threading.Thread(target=distributed.watch_others, args=(_end, ending), daemon=True).start()
    try:
        yield own_device(here, device)
        distributed.leave()
        ending.set()
    except Exception as error:
        if not isinstance(error, HardnegError):
            time.sleep(_GRACE)
        if distributed.speaks():
            raise
        sys.exit(error.exit_code if isinstance(error, HardnegError) else _LOST)


def _end(rank: int) -> None:
    say(f"hardneg: process {rank} is gone; finished work is saved. Run the same command to resume", err=True)
    os._exit(_LOST)


def show_plan(
    plan: "recipes.Plan",
    store: Store,
    problems: Sequence[errors.HardnegError] = (),
    as_json: bool = False,
    until: str | None = None,
    documents: int | None = None,
) -> None:
    """Print the steps of a plan, a warning if the disk is too small, and what must be fixed before the plan can run.

    problems: errors that must be fixed too. until: the last step. documents: the number of documents to plan for.
    """
    rows = recipes.estimate(plan, store, until, documents)
    too_large = list(recipes.no_room(rows, free_bytes(store.root)))
    ahead = [*map(str, problems), *(need.missing for need in recipes.packages(plan) if need.missing)]
    if as_json:
        return console.say_json({**_content(plan, rows), "too large": too_large, "before it can run": ahead}, indent=1)
    plan_table(rows, plan.recipe.copies)
    for line in too_large:
        say(f"too large: {line}")
    if any(layout.START in step.inputs.values() for step in plan.until(until)):
        with suppress(errors.ModelError):  # told below
            for line in plan.recipe.models.of(plan.recipe.model).remarks:
                say(f"model {plan.recipe.model.name}: {line}")
    for problem in ahead:
        say(f"before it can run: {problem}")


def _content(plan: "recipes.Plan", rows: "Sequence[recipes.Estimate]") -> dict[str, Any]:
    """Return the steps and their totals for `--json`; unknown times are null."""
    copies = plan.recipe.copies
    seed_copies = {copy: {"of": name, "seed": seed} for name, seeds in copies.items() for seed, copy in seeds.items()}
    ahead = [row for row in rows if not row.cached]
    to_run = {"steps": len(ahead), "disk": sum(row.disk for row in ahead)}
    steps = []
    for row in rows:
        named = {"step": row.step.name, "stage": row.step.verb, "key": row.step.key, "stored": row.cached}
        counts = {name: getattr(row, name) for name in ("items", "unit", "disk", "seconds")}
        like = {"like": row.like.key if row.like else None}
        steps.append(named | counts | like | seed_copies.get(row.step.name, {}))
    return {"recipe": plan.recipe.name, "preset": plan.recipe.preset, "steps": steps, "to run": to_run}


def plan_table(rows: "Sequence[recipes.Estimate]", copies: Mapping[str, Mapping[int, str]] = {}) -> None:
    """Print a row per step, or one for all seeds of a stage, and totals; copies: step names by stage and seed.

    If the store has a similar step, the row also shows how long it took.
    """
    stage_of = {copy: name for name, seeds in copies.items() for copy in seeds.values()}
    groups: dict[str, list[recipes.Estimate]] = {}
    for row in rows:
        groups.setdefault(stage_of.get(row.step.name, row.step.name), []).append(row)
    lines = []
    for name, group in groups.items():
        first, count, stored = group[0], len(group), sum(row.cached for row in group)
        called = f"{name} x {wording.counted(count, 'seed')}" if name in copies else name
        state = "stored" if stored == count else f"{stored} of {count} stored" if stored else "to run"
        key = first.step.key[:8] if count == 1 else f"{count} keys"
        items, disk = f"{sum(row.items for row in group):,} {first.unit}", wording.size(sum(row.disk for row in group))
        seconds = sum(row.seconds or 0 for row in group)
        lines.append([called, first.step.verb, state, key, items, disk, wording.duration(seconds) if seconds else ""])
    columns = ["step", "stage", "state", "key", "items", "disk", "similar step took"]
    shown = len(columns) - (not any(line[-1] for line in lines))
    terminal = console.stdout_console()
    console.print_table(terminal, Table(columns[:shown], [line[:shown] for line in lines], words=4), narrow="stage")
    ahead = [row for row in rows if not row.cached]
    parts = [f"to run: {len(ahead)} of {len(rows)} steps, about {wording.size(sum(row.disk for row in ahead))} of disk"]
    if known := [row.seconds for row in ahead if row.seconds is not None]:
        parts.append(f"{wording.duration(sum(known))} for {len(known)} of them, judging by similar steps")
    terminal.print(", ".join(parts), soft_wrap=True)
