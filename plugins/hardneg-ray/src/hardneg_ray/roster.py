"""Which writers may write into the folder of a stage: one that was given up must not, if it should still be alive.

A writer looks whether it is listed, and writes its block, under a shared lock. Who changes the list holds the lock
alone. So when a writer was taken off the list, all that it has written is in the journals, and it writes no more.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hardneg.plugin import SCRATCH, atomic_write

_LOCK, _NAMES = "writers.lock", "writers.json"


class Dismissed(Exception):
    """This writer is no longer listed: others make its blocks."""


class Roster:
    """The names of the writers of a folder."""

    def __init__(self, folder: Path) -> None:
        """The roster of the stage's `folder`, on a file system that all its writers see."""
        self._lock, self._names = folder / SCRATCH / _LOCK, folder / SCRATCH / _NAMES

    def write(self, names: Iterable[str]) -> None:
        """Makes these all there are, when whoever is writing a block has finished it."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX):
            atomic_write.replace_text(self._names, json.dumps(sorted(names)))

    def lists(self, name: str) -> bool:
        """Whether a name is listed; not where there is no roster, as on a machine that does not see the folder."""
        try:
            return name in json.loads(self._names.read_text(encoding="utf-8"))
        except OSError:
            return False

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """For the time that a listed writer writes a block.

        Raises:
            Dismissed: it is not listed.
        """
        with self._locked(fcntl.LOCK_SH):
            if not self.lists(name):
                raise Dismissed(name)
            yield

    @contextmanager
    def _locked(self, lock: int) -> Iterator[None]:
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError as error:  # the folder was finished, or is gone
            raise Dismissed(str(self._lock)) from error
        try:
            fcntl.flock(handle, lock)
            yield
        finally:
            os.close(handle)
