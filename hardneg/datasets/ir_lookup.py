"""Which files an id of the ir_datasets catalogue is made of; none is fetched."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardneg.types import Lookup

_DEEPEST = 12


def look_up(handlers: list[Any]) -> Lookup:
    """The bytes of the downloads behind handlers of ids: those that are in ir_datasets' folder, and those to come."""
    there, ahead, unknown = 0, 0, 0
    for download in {id(found): found for item in handlers for found in _downloads(item, _DEEPEST)}.values():
        size = int(getattr(download, "_size_hint", None) or 0)
        if (path := _place(download)) is not None and path.exists():
            there += path.stat().st_size
        else:
            ahead, unknown = ahead + size, unknown + (not size)
    note = f"{unknown} files of unknown size; ir_datasets fetches them" if unknown else "ir_datasets fetches them"
    return Lookup(there, ahead, note if ahead or unknown else "")


def _place(download: Any) -> Path | None:
    """Where a download is kept, by what every kind of it has; None where it is not kept."""
    kept = getattr(download, "_path", None) or getattr(download, "_cache_path", None)
    return Path(kept) if isinstance(kept, str | Path) else None


def _downloads(item: Any, depth: int) -> Iterator[Any]:
    """The downloads that an object of ir_datasets holds, directly or in what it is made of."""
    kept = _place(item)
    if hasattr(item, "_size_hint") or (kept is not None and kept.is_file()):
        yield item
        return
    held = item if isinstance(item, list | tuple) else getattr(item, "__dict__", {}).values()
    for value in held if depth else ():
        inside = isinstance(value, list | tuple) or type(value).__module__.startswith("ir_datasets")
        yield from _downloads(value, depth - 1) if inside else ()
