"""Digests that name artifacts: equal content has equal names on every machine."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.records.errors import DataError, HardnegError

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
