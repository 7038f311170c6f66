"""Locks as NFS 4 gives them: shared ones on what is open for reading, exclusive ones on what is open for writing."""

import errno
import fcntl
import os

import pytest


def as_nfs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Refuses all others from now on; returns what was asked for."""
    asked: list[int] = []
    flock = fcntl.flock

    def strict(file: object, kind: int) -> None:
        handle = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
        mode = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
        if mode not in (os.O_RDWR, os.O_RDONLY if kind & fcntl.LOCK_SH else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        asked.append(kind)
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", strict)
    return asked
