"""Digests that name artifacts, equal on every machine where the content is, and the options that enter them."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hardneg.records import DataError, HardnegError

_CHUNK = 1 << 22
_noted: ContextVar[dict[Path, tuple[int, ...]] | None] = ContextVar("files that a digest is of", default=None)


@dataclass(frozen=True)
class Content:
    """Content outside of the store, by its digest; files: those that it is of, with their states before they were read.

    find: computes the digest anew.
    """

    find: Callable[[], str]
    digest: str
    files: dict[Path, tuple[int, ...]]

    @classmethod
    def of(cls, find: Callable[[], str]) -> "Content":
        """The content that `find` digests."""
        files = dict[Path, tuple[int, ...]]()
        token = _noted.set(files)
        try:
            return cls(find, find(), files)
        finally:
            _noted.reset(token)

    def check(self) -> None:
        """Digest it again if a file's size, times or inode are not as they were. Raises DataError if it has changed."""
        moved = {path: state for path, noted in self.files.items() if (state := _state(path)) != noted}
        if moved:
            now = ""
            with suppress(HardnegError, OSError):  # gone, or half written
                now = self.find()
            if now != self.digest:
                file = min(moved, key=Path.is_dir)
                raise DataError(f"{file} changed while the run worked; run again")
            self.files.update(moved)


def note_read(path: Path) -> None:
    """Note that a digest is of this file, or of the names in this folder: see `Content`."""
    if (files := _noted.get()) is not None:
        files.setdefault(path, _state(path))


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no spaces; floats as Python prints them. Raises TypeError for other types."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """32 hexadecimal digits that name a JSON value."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """32 hexadecimal digits that name a file's bytes."""
    state = hashlib.blake2b(digest_size=16)
    note_read(path)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def tree_digest(root: Path, names: Iterable[str] | None = None) -> str:
    """A name for the files below `root` (or for those of `names`, relative to it): their paths and their bytes."""
    paths = sorted(root.joinpath(name) for name in names) if names is not None else sorted(root.rglob("*"))
    for folder in {root, *(each for path in paths for each in path.parents if root in each.parents)}:
        note_read(folder)
    return digest([[path.relative_to(root).as_posix(), file_digest(path)] for path in paths if path.is_file()])


_MARK = "in_identity"
FREE: dict[str, Any] = {_MARK: False}
"""Marks a field of a pydantic model that cannot change a result: it is in no key."""

LATER: dict[str, Any] = {_MARK: "unless it has its default"}
"""Marks a field that is newer than stored artifacts: it enters a key when it differs from its default."""

_WORDS: Mapping[str, tuple[str, Mapping[Any, str]]] = {
    "iterate_negatives": ("order", {True: "consecutive"}),
    "false_negative_mask": ("mask", {False: "none"}),
}
"""Training options that have another name, and other values, in keys."""


def options_in_key(options: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that may change a result, by name, as JSON values; defaults included.

    An option never counts where it is marked `FREE`, and counts with another value than its default alone where it is
    marked `LATER`. A dataclass has these marks in its fields' metadata, or lists such options in its class
    variables `free` and `later`.

    Args:
        options: a pydantic model or a dataclass.
        without: options to leave out, as their content counts instead.
    """
    from pydantic import BaseModel, TypeAdapter

    cls = type(options)
    if isinstance(options, BaseModel):
        known = [(name, info.default, info.json_schema_extra) for name, info in cls.model_fields.items()]
    else:
        known = [(each.name, each.default, each.metadata) for each in fields(cls)]
    marks = {name: (default, extra.get(_MARK)) for name, default, extra in known if isinstance(extra, Mapping)}
    free = {*getattr(cls, "free", ()), *(name for name, (_, mark) in marks.items() if mark == FREE[_MARK])}
    later = {name: getattr(cls, name) for name in getattr(cls, "later", ())}
    later |= {name: default for name, (default, mark) in marks.items() if mark == LATER[_MARK]}
    unchanged = {name for name, default in later.items() if getattr(options, name) == default}
    left_out = {*without, *free, *unchanged}
    counted: dict[str, Any] = TypeAdapter(cls).dump_python(options, mode="json", exclude=left_out, warnings=False)
    return counted


def plugin_identity(name: str, plugin: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return what a configured plugin adds to a key: its name, its version, and its options that count."""
    return {"name": name, "version": type(plugin).version, "options": options_in_key(plugin, without)}


def in_words_of_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return training options with their names and values in keys."""
    renamed = {}
    for name, value in options.items():
        word, values = _WORDS.get(name, (name, {}))
        renamed[word] = values.get(value, value) if values else value
    return renamed
