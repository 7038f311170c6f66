"""What `hardneg data fetch` prints, and the room that it needs on the disk."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.cli.console import Bars, size
from hardneg.errors import DataError

if TYPE_CHECKING:
    from hardneg.datasets.downloads import Published

_UNPACKED = 4  # an archive of texts unpacks to about three times its size, beside itself


def fetch_all(found: "Published", folder: Path, bars: Bars) -> None:
    """Brings all files of a dataset, one line each.

    Raises:
        DataError: the disk has no room, or a file cannot be had; what was finished is kept.
    """
    from hardneg.datasets.fetching import fetch

    wanted = sum(file.bytes * (_UNPACKED if file.members else 1) for file in found.files)
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not folder.exists() and wanted > (free := shutil.disk_usage(place).free):
        told = f"{size(wanted)} are needed, {size(free)} are free"
        raise DataError(f"{folder}: {told}; choose another place with --output")
    bars.note(f"into {folder}; the terms of use: {found.terms}")
    for file in found.files:
        new = fetch(file, folder, bars)
        bars.note(f"{file.name}: {'fetched, as published' if new else 'there already, as published'}")
