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

from hardneg.cli.console import Bars, bars, say, stderr_console
from hardneg.cli.options import open_store, tell_once
from hardneg.functions.session import Session
from hardneg.records import LOCAL, HardnegError, PluginSetting, UsageError, duration
from hardneg.runtime import World, distributed, world
from hardneg.store import Artifact, Outputs, Store, Target, Words

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.recipes import Options, Outcome, Plan, Step, Watcher
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

            show_plan(ahead or recipe, self, self.plans == 2)
            raise typer.Exit
        plan: Plan | None = None if recipe is None else recipe.plan(tell_once)
        if plan is None:
            self.outputs = command_outputs(self.command, self.targets, reads, self.store, self.overwrite)
        else:
            self.outputs = plan_outputs(self.command, plan, self.store, self.targets, self.overwrite, reads)
        self.held.enter_context(self.outputs.begun())
        with suppress(OSError):
            self.store.root.mkdir(parents=True, exist_ok=True)
        if plan is None and not (self.store.root.is_dir() and not self.store.read_only):
            self.store = Store(Path(self.held.enter_context(TemporaryDirectory())))
        return plan

    def make(self, plan: "Plan", until: str | None = None, force: Sequence[str] = ()) -> "Outcome":
        """The artifacts of all steps, or of those up to one; of several processes each calls this."""
        return run_plan(plan, self.store, self.options(until, force))


def opened(
    store: Path | None, device: str | None = None, settings: Sequence[str] | None = (), engine: "Engine | None" = None
) -> TerminalSession:
    """Where a command works: in this store, on this device, each None for the usual, with these texts of settings."""
    return TerminalSession(open_store(store), device, settings=settings or (), progress=bars(), engine=engine)


def run_plan(plan: "Plan", store: Store, options: "Options") -> "Outcome":
    """Makes what the store lacks, with one line a step on stderr; of several processes each calls this."""
    from hardneg.recipes import Watcher, execute

    if distributed.from_first(plan.keys) != plan.keys:
        raise UsageError(f"process {world().rank} sees another model or dataset than process 0: their files differ")
    console = stderr_console()
    watcher = step_watcher(console, Bars(console), len(plan.until(options.until))) if world().first else Watcher()
    return execute(plan, store, options, watcher)


def step_watcher(console: "Console", bars: Bars, total: int) -> "Watcher":
    """Prints one line a step, with what it is for, and one with its result."""
    from hardneg.recipes import Watcher

    count = 0

    def begins(step: "Step") -> None:
        reason = f": {why}" if (why := step.spec.why()) else ""
        console.print(f"[{count + 1}/{total}] {step.name}: {step.verb}{reason}")

    def ends(step: "Step", artifact: Artifact, seconds: float | None) -> None:
        nonlocal count
        count += 1
        if seconds is None:
            console.print(f"[{count}/{total}] {step.name}: in the store")
        else:
            facts = ", ".join(
                f"{key} {value}"
                for key, value in artifact.facts.items()
                if key != "seconds" and isinstance(value, int | str) and not isinstance(value, bool)
            )
            console.print(f"    {duration(seconds)}{f'; {facts}' if facts else ''}")

    return Watcher(begins, ends, bars)


def plan_outputs(
    command: str, plan: "Plan", store: Store, targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
) -> Outputs:
    """The outputs of a command that runs a plan; `reads` are the files that it is given beside that."""
    from hardneg.recipes import inputs_of

    inputs = [*inputs_of(plan.recipe), *reads]
    return command_outputs(command, targets, inputs, store, overwrite, list(plan.keys.values()))


def configured(name: str | None, options: Sequence[str] | None) -> "Engine":
    """The engine that a command names, with its options.

    Raises:
        PluginError: there is no such engine, or it has no such option.
        UsageError: it is another than the built-in one, in several processes.
    """
    from hardneg.registry import configure

    name = name or LOCAL
    if name != LOCAL and world().size > 1:
        raise UsageError(f"--engine {name}: it starts its own processes; leave out torchrun and accelerate")
    engine: Engine = configure("engines", PluginSetting(name, plugin_options(options or (), "--engine-option")))
    return engine


def plugin_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """`--option KEY=VALUE`, each value read as YAML."""
    from hardneg.recipes import parse_setting

    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be of the form KEY=VALUE")
        try:
            options[key] = parse_setting(value)
        except ValueError as error:
            raise UsageError(f"{option} {key}: {error}") from None
    return options


_WORDS = Words("--output", "--overwrite", "hardneg {}")


def command_outputs(
    command: str,
    targets: Sequence[Target],
    inputs: Sequence[Path],
    store: Store,
    overwrite: bool,
    keys: Sequence[str] = (),
) -> Outputs:
    """Those of a command; `keys` of the steps that lead to them."""
    return Outputs(
        command, targets, inputs, store, overwrite, keys, _WORDS, lambda text: say(f"note: {text}", err=True)
    )


def store_outputs(command: str, targets: Sequence[Target], inputs: Sequence[Path], overwrite: bool) -> Outputs:
    """Those of a command without a store of its own: what it writes is known to the usual one."""
    return command_outputs(command, targets, inputs, open_store(None), overwrite)


def free_bytes(path: Path) -> int:
    """What is free where a path is, or will be."""
    return shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists())).free


def own_device(here: World, device: str | None) -> str:
    """`cpu`, or the GPU of this process. Raises UsageError: there are too few GPUs, or one is named."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    if device != "cuda":
        raise UsageError(f"--device {device}: several processes run on `cpu` or, one GPU each, on `cuda`")
    if (gpu := distributed.gpu_of(here)) is None:
        raise UsageError(
            f"{here.local_size} processes on one machine: it has {torch.cuda.device_count()} GPUs, one a process is "
            "needed; or --device cpu"
        )
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
