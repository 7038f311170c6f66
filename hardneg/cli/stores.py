"""Where the store is."""

import os
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import typer

from hardneg.cli.panels import MACHINE
from hardneg.cli.printing import say
from hardneg.errors import ArtifactError

if TYPE_CHECKING:
    from hardneg.artifacts import Store

STORE = typer.Option(
    None,
    "--store",
    help="The artifact store; default $HARDNEG_STORE, else ~/.cache/hardneg/store.",
    show_default=False,
    rich_help_panel=MACHINE,
)


def open_store(path: Path | None) -> "Store":
    """The store at `path`, which is told where it is not there yet, or at its usual place.

    Raises:
        ArtifactError: a file is there, or nothing can be.
    """
    from hardneg.artifacts import Store
    from hardneg.distributed import world

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = (path or Path(os.environ.get("HARDNEG_STORE") or cache / "hardneg" / "store")).absolute()
    _check(root)
    if path is not None and not root.exists() and world().first:
        say(f"note: there is no store at {path} yet; what is made goes there", err=True)
    return Store(root)


def _check(root: Path) -> None:
    try:
        found = root.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ArtifactError(f"store {root}: cannot be used ({error.strerror}); name another one with --store") from None
    if not S_ISDIR(found.st_mode):
        raise ArtifactError(f"store {root}: is a file; name a folder with --store")
