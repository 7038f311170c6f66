"""Where a command works: outputs are checked before anything is made, a step is a line, processes work as one."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg import recipes
from hardneg.cli import console
from hardneg.cli.adaptor import open_store, plugin_options, tell_once
from hardneg.cli.console import bars, say
from hardneg.functions.session import Session
from hardneg.records import HardnegError, UsageError, layout, types, wording
from hardneg.registry import configure
from hardneg.runtime import World, distributed, world
from hardneg.store import Artifact, Outputs, Store, Target, Words

if TYPE_CHECKING:
    from hardneg.stages.base import Engine

_LOST = 75
"""Exit code of a process that ends because another one did."""
_GRACE = 5.0
"""Seconds in which the launcher ends a process that may have failed because another one is gone."""


@dataclass
class TerminalSession(Session):
    """Where a command works.

    command: whose outputs these are. plans: whether it shows the steps and does nothing; as JSON if that is 2.
    held: what is closed when the command ends.
    """

    command: str = ""
    targets: Sequence[Target] = ()
    overwrite: bool = False
    plans: int = 0
    held: ExitStack = field(default_factory=ExitStack)

    def tell(self, note: str) -> None:
        """One line on stderr."""
        tell_once(note)

    def begin(self, recipe: Any, reads: Sequence[Path] = (), ahead: Any = None) -> Any:
        """The plan, after the outputs are found free; without one a store that cannot be written stands aside.

        Raises:
            UsageError: an output is an input, or is there and is not this command's own.
        """
        if self.plans and recipe is not None:
            from hardneg.cli.recipe import show_plan

            show_plan((ahead or recipe).plan(tell_once), self.store, as_json=self.plans == 2)
            raise typer.Exit
        plan: recipes.Plan | None = None if recipe is None else recipe.plan(tell_once)
        self.outputs = store_outputs(self.command, self.targets, reads, self.overwrite, self.store, plan)
        self.held.enter_context(self.outputs.begun())
        with suppress(OSError):
            self.store.root.mkdir(parents=True, exist_ok=True)
        if plan is None and not (self.store.root.is_dir() and not self.store.read_only):
            self.store = Store(Path(self.held.enter_context(TemporaryDirectory())))
        return plan

    def make(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """The artifacts of all steps, or of those up to one; of several processes each calls this."""
        return run_plan(plan, self.store, self.options(until, force))


def opened(
    store: Path | None, device: str | None = None, settings: Sequence[str] | None = (), engine: "Engine | None" = None
) -> TerminalSession:
    """Where a command works: in this store, on this device, each None for the usual, with these texts of settings."""
    return TerminalSession(open_store(store), device, settings=settings or (), progress=bars(), engine=engine)


def run_plan(plan: "recipes.Plan", store: Store, options: "recipes.Options") -> "recipes.Outcome":
    """Makes what the store lacks, with what a step is for and its result on stderr; each of several processes calls it.

    Raises:
        UsageError: this process sees other files than the first.
    """
    if distributed.from_first(plan.keys) != plan.keys:
        raise UsageError(f"process {world().rank} sees another model or dataset than process 0: their files differ")
    if not world().first:
        return recipes.execute(plan, store, options, recipes.Watcher())
    terminal, count, total = console.stderr_console(), 0, len(plan.until(options.until))

    def begins(step: "recipes.Step") -> None:
        reason = f": {why}" if (why := step.spec.why()) else ""
        terminal.print(f"[{count + 1}/{total}] {step.name}: {step.verb}{reason}")

    def ends(step: "recipes.Step", artifact: Artifact, seconds: float | None) -> None:
        nonlocal count
        count += 1
        if seconds is None:
            return terminal.print(f"[{count}/{total}] {step.name}: in the store")
        told = {key: value for key, value in artifact.facts.items() if key != "seconds" and not isinstance(value, bool)}
        facts = [f"{key} {value}" for key, value in told.items() if isinstance(value, int | str)]
        terminal.print("; ".join([f"    {wording.duration(seconds)}", *([", ".join(facts)] if facts else [])]))

    return recipes.execute(plan, store, options, recipes.Watcher(begins, ends, console.Bars(terminal)))


def configured(name: str | None, options: Sequence[str] | None) -> "Engine":
    """The engine that a command names, with its options.

    Raises:
        PluginError: there is no such engine, or it has no such option.
        UsageError: it is another than the built-in one, in several processes.
    """
    name = name or layout.LOCAL
    if name != layout.LOCAL and world().size > 1:
        raise UsageError(f"--engine {name}: it starts its own processes; leave out torchrun and accelerate")
    engine: Engine = configure("engines", types.PluginSetting(name, plugin_options(options or (), "--engine-option")))
    return engine


def store_outputs(
    command: str,
    targets: Sequence[Target],
    inputs: Sequence[Path],
    overwrite: bool,
    store: Store | None = None,
    plan: "recipes.Plan | None" = None,
) -> Outputs:
    """The outputs of a command, which a store knows, by default the usual one; plan: whose steps lead to them."""
    keys: list[str] = []
    if plan is not None:
        inputs, keys = [*recipes.inputs_of(plan.recipe), *inputs], list(plan.keys.values())
    known, words = open_store(None) if store is None else store, Words("--output", "--overwrite", "hardneg {}")
    return Outputs(command, targets, inputs, known, overwrite, keys, words, lambda text: say(f"note: {text}", err=True))


def free_bytes(path: Path) -> int:
    """What is free where a path is, or will be."""
    return shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists())).free


def own_device(here: World, device: str | None) -> str:
    """`cpu`, or the GPU of this process. Raises UsageError: there are too few GPUs, or one is named."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu":
        return device
    if device != "cuda":
        raise UsageError(f"--device {device}: several processes run on `cpu` or, one GPU each, on `cuda`")
    if (gpu := distributed.gpu_of(here)) is None:
        there = f"it has {torch.cuda.device_count()} GPUs, one a process is needed; or --device cpu"
        raise UsageError(f"{here.local_size} processes on one machine: {there}")
    return f"cuda:{gpu}"


@contextmanager
def together(device: str | None) -> Iterator[str | None]:
    """Meets the other processes, gives the device to use, and leaves with them; only one of them reports an error."""
    here = world()
    if here.size == 1:
        yield device
        return
    for number in (signal.SIGTERM,) if here.first else (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # the launcher speaks, and waiting in C code must not delay the end
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
    say(f"hardneg: process {rank} is gone; finished work is kept. Run the same command to resume", err=True)
    os._exit(_LOST)
