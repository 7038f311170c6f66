"""Where the store is."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.cli.panels import MACHINE

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
    """The store at `path`, or at its usual place."""
    from hardneg.artifacts import Store

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Store((path or Path(os.environ.get("HARDNEG_STORE") or cache / "hardneg" / "store")).absolute())
