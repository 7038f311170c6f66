"""The outputs of commands: in their words, and known to the store of the command, or to the usual one."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from hardneg.cli.console import say
from hardneg.cli.options import open_store
from hardneg.records.errors import UsageError
from hardneg.store.artifacts import Store
from hardneg.store.replaced_files import Outputs, Target, Words

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


def check_run(output: Path) -> None:
    """Refuses an output that is no name of a run. Raises UsageError where it does not end in .gz."""
    if output.suffix != ".gz":
        raise UsageError(f"{output}: runs are gzip files; give a name that ends in .trec.gz")


def free_bytes(path: Path) -> int:
    """What is free where a path is, or will be."""
    return shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists())).free
