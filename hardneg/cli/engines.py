"""`--engine NAME`: where the blocks of encode, search, mine and rerank are made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.cli.options import key_values
from hardneg.cli.planned_work import RunOptions, plugin_options
from hardneg.lines.base import MACHINE
from hardneg.records.errors import UsageError
from hardneg.records.named_plugins import LOCAL
from hardneg.runtime.distributed import world

if TYPE_CHECKING:
    from hardneg.verbs.shared.context import Engine

ENGINE_OPTION = key_values("An option of the engine, such as actors=4.", MACHINE)


def configured(name: str, options: Sequence[str], processes: int | None) -> "Engine":
    """The engine that a command names, with its options.

    Raises:
        PluginError: there is no such engine, or it has no such option.
        UsageError: it is another than the built-in one, in several processes.
    """
    from hardneg.records.types import PluginSetting
    from hardneg.registry.plugins import configure

    if name != LOCAL and max(processes or 1, world().size) > 1:
        raise UsageError(
            f"--engine {name}: it starts its own processes; leave out --num-processes, torchrun and accelerate"
        )
    engine: Engine = configure("engines", PluginSetting(name, plugin_options(options, "--engine-option")))
    return engine


def run_options(
    store: Path | None,
    device: str | None,
    processes: int | None,
    name: str | None = LOCAL,
    options: Sequence[str] | None = (),
) -> RunOptions:
    """Where a command works, with the engine that it names. Raises as `configured`."""
    return RunOptions(store, device, processes, configured(name or LOCAL, options or (), processes))
