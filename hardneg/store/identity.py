"""Identities of artifacts: digests of content, the options that enter a key, and choices that a resumed run repeats."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hardneg.records import DataError, HardnegError
from hardneg.runtime import from_whoever_asks_first
from hardneg.store.atomic_write import replace_text

_read_files: ContextVar[dict[Path, tuple[int, ...]] | None] = ContextVar("files that a digest covers", default=None)


@dataclass(frozen=True)
class Content:
    """Content outside the store, by its digest.

    find: computes the digest anew. files: the digested files, each with its state before it was read.
    """

    find: Callable[[], str]
    digest: str
    files: dict[Path, tuple[int, ...]]

    @classmethod
    def of(cls, find: Callable[[], str]) -> "Content":
        """Return the content that `find` digests."""
        files = dict[Path, tuple[int, ...]]()
        token = _read_files.set(files)
        try:
            return cls(find, find(), files)
        finally:
            _read_files.reset(token)

    def check(self) -> None:
        """Digest again if a file's size, times or inode have changed. Raises DataError if the content has changed."""
        moved = {path: state for path, noted in self.files.items() if (state := _state(path)) != noted}
        if moved:
            now = ""
            with suppress(HardnegError, OSError):  # gone, or half written
                now = self.find()
            if now != self.digest:
                file = min(moved, key=Path.is_dir)
                raise DataError(f"{file} changed during the run; run again")
            self.files.update(moved)


def note_read(path: Path) -> None:
    """Note that the digest being computed covers this file, or the names in this folder: see `Content`."""
    if (files := _read_files.get()) is not None:
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
    """Return the digest of a JSON value, 32 hexadecimal digits."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's bytes, 32 hexadecimal digits."""
    note_read(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def tree_digest(root: Path, names: Iterable[str] | None = None) -> str:
    """Return the digest of the paths and bytes of the files below `root`, or of `names` relative to it."""
    paths = sorted(root.joinpath(name) for name in names) if names is not None else sorted(root.rglob("*"))
    for folder in {root, *(each for path in paths for each in path.parents if root in each.parents)}:
        note_read(folder)
    return digest([[path.relative_to(root).as_posix(), file_digest(path)] for path in paths if path.is_file()])


_MARK = "in_identity"
FREE: dict[str, Any] = {_MARK: False}
"""Mark of a field of a pydantic model that cannot change a result: it is in no key."""

LATER: dict[str, Any] = {_MARK: "unless it has its default"}
"""Mark of a field that is newer than stored artifacts: it enters a key when it differs from its default."""

_LEGACY: Mapping[str, tuple[str, Mapping[Any, str]]] = {
    "iterate_negatives": ("order", {True: "consecutive"}),
    "false_negative_mask": ("mask", {False: "none"}),
}
"""Training options with different names and values in keys."""


def options_in_key(options: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that may change a result, by name, as JSON values; defaults included.

    An option marked `FREE` never counts; one marked `LATER` counts only if it differs from its default. A dataclass has
    these marks in its fields' metadata, or lists such options in its class variables `free` and `later`.

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
    """Return a configured plugin's part of a key: its name, its version, and its options that count."""
    return {"name": name, "version": type(plugin).version, "options": options_in_key(plugin, without)}


def legacy_key_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return training options with their names and values in keys."""
    renamed = {}
    for name, value in options.items():
        word, values = _LEGACY.get(name, (name, {}))
        renamed[word] = values.get(value, value) if values else value
    return renamed


CHOICE = "choice/"
"""The prefix of the subject of a choice that several processes share."""

_chosen: dict[str, str] = {}
_listening: list[tuple[dict[str, str], Path | None]] = []


def choose(subject: str, best: str, *others: str) -> str:
    """Return the recorded way to compute a subject, if it is one of these, else the best; the first process decides.

    Ways that round differently are chosen here: a step that resumes, on another machine too, goes on with its own.
    """
    chosen = _chosen.get(subject, "")
    if chosen not in (best, *others):
        chosen = from_whoever_asks_first(CHOICE + subject, lambda: best)
    for choices, file in _listening:
        if choices.get(subject) != chosen:
            choices[subject] = chosen
            if file is not None:
                replace_text(file, json.dumps({CHOICE + name: way for name, way in choices.items()}, indent=1) + "\n")
    return chosen


@contextmanager
def noted(earlier: Mapping[str, str] | None = None, file: Path | None = None) -> Iterator[dict[str, str]]:
    """Collect the choices made in the block, by subject; those in `earlier` take precedence.

    file: stores them for a resumed run, and holds those of the run that is resumed, which take precedence too.
    """
    before, choices = dict(_chosen), dict(earlier or {})
    with suppress(OSError, TypeError, ValueError):
        left = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
        choices |= {name.removeprefix(CHOICE): str(way) for name, way in dict(left).items()}
    _chosen.update(choices)
    _listening.append((choices, file))
    try:
        yield choices
    finally:
        _listening[:] = [other for other in _listening if other[0] is not choices]
        _chosen.clear()
        _chosen.update(before)


def cache_folder() -> Path:
    """Return the folder of data cached between runs, by the XDG rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardneg"
