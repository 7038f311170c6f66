"""Remote shards cached on this machine: fetched on demand, checked, and evicted when others need the room."""

import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from hardneg.formats.vectors.remote import fetch_file, joined, read_json
from hardneg.records.errors import ArtifactError, UsageError
from hardneg.store.choices import cache_folder
from hardneg.store.digest import digest, file_digest

ROOM = "HARDNEG_SHARD_BYTES"
"""The environment variable with the bytes of shards that may be kept; by default half of what is free on that disk."""

_NAME = re.compile(r"[0-9a-f]{32}")
_FILES = re.compile(r"[a-z][a-z.]*")
_KEPT = 2  # of this process's own, whatever the room


class ShardCache:
    """A folder of fetched shards, by digest, which several processes share: none is dropped that one of them holds.

    The threads of a process share its holds: those of which a thread is at work with the files are not given up.
    """

    def __init__(self, root: Path, room: int) -> None:
        self.root, self.room = root, room
        self._held: dict[str, int] = {}  # file handles of locks, the last used last
        self._used = Counter[str]()  # by how many threads, at this moment
        self._one = Lock()

    @staticmethod
    @cache
    def own() -> "ShardCache":
        """That of the user, in the cache folder."""
        root = cache_folder() / "shards"
        root.mkdir(parents=True, exist_ok=True)
        said = os.environ.get(ROOM)
        if said is not None and not said.isdecimal():
            raise UsageError(f"{ROOM}: {said!r} is no number of bytes")
        return ShardCache(root, int(said) if said else (shutil.disk_usage(root).free + _size(root)) // 2)

    @contextmanager
    def folder(self, url: str, size: int, name: str) -> Iterator[Path]:
        """The folder of the shard at a URL, whose files have so many bytes and are named by a digest.

        It is kept inside the block, and then at least until two others are fetched.

        Raises:
            ArtifactError: it cannot be fetched, or its digest or size differs.
        """
        if not _NAME.fullmatch(name):
            raise ArtifactError(f"{url}: {name!r} is no digest: encode the corpus again")
        with self._one:
            if name not in self._held:
                self._held[name] = self._taken(url, size, name)
            self._held[name] = self._held.pop(name)
            self._used[name] += 1
            os.utime(self.root / name)
        try:
            yield self.root / name
        finally:
            with self._one:
                self._used[name] -= 1

    def _taken(self, url: str, size: int, name: str) -> int:
        """The handle of the shared lock on a shard, which is fetched unless it is there.

        Others that hold the shard are not waited for. Between two locks it may be dropped: then it is fetched again.
        """
        handle = self._lock(name)
        try:
            while True:
                fcntl.flock(handle, fcntl.LOCK_SH)
                if (self.root / name).exists():
                    return handle
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not (self.root / name).exists():
                    self._make_room(size)
                    self._fetch(url, name)
        except BaseException:
            os.close(handle)
            raise

    def _lock(self, name: str) -> int:
        return os.open(self.root / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)

    def _fetch(self, url: str, name: str) -> None:
        said = read_json(joined(url, "shard.json"))
        if not isinstance(said, dict):
            raise ArtifactError(f"{url}: the shard is not there, or not complete: encode the corpus again")
        files: dict[str, dict[str, Any]] = said.get("files", {})
        if digest(files) != name:
            raise ArtifactError(f"{url}: the shard is another one than was listed: encode the corpus again")
        aside = self.root / f"{name}.new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for file, wanted in files.items():
            if not _FILES.fullmatch(file):
                raise ArtifactError(f"{url}: {file!r} is no file of an index: encode the corpus again")
            fetch_file(joined(url, file), aside / file)
            if (aside / file).stat().st_size != wanted["bytes"] or file_digest(aside / file) != wanted["digest"]:
                raise ArtifactError(f"{joined(url, file)}: the bytes have changed: encode the corpus again")
        os.replace(aside, self.root / name)

    def _make_room(self, size: int) -> None:
        """Drops shards, the longest unused first, that no process holds, until so many bytes fit."""
        idle = [name for name in self._held if not self._used[name]]
        for name in idle[: max(0, len(self._held) - _KEPT + 1)]:
            if _size(self.root) + size <= self.room:
                return
            os.close(self._held.pop(name))
            self._drop(size)
        self._drop(size)

    def _drop(self, size: int) -> None:
        there = [path for path in self.root.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]
        for path in sorted(there, key=lambda path: path.stat().st_mtime):
            if _size(self.root) + size <= self.room:
                return
            handle = self._lock(path.name)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            except BlockingIOError:
                continue
            finally:
                os.close(handle)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
