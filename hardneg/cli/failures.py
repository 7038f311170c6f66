"""What the system refuses, as one line and an exit code: full and closed disks, files that cannot be read."""

import errno
import os
import sys
from contextlib import suppress

from hardneg.cli.printing import say
from hardneg.errors import ArtifactError, DataError, HardnegError

_ROOM = {
    errno.ENOSPC: "the disk is full; free some space and run again",
    errno.EDQUOT: "the disk quota is used up; free some space and run again",
    errno.EFBIG: "the file is larger than may be here (ulimit -f); raise that and run again",
    errno.EROFS: "the disk is read-only; write to another place",
}
_CLOSED = (errno.EACCES, errno.EPERM)


def end(error: HardnegError | OSError) -> None:
    """Tells an error on stderr and exits with its code; what waits for a stdout that cannot be written is dropped."""
    told = error if isinstance(error, HardnegError) else as_told(error)
    with suppress(OSError):
        say(f"hardneg: {told}", err=True)
    drop_stdout()
    sys.exit(told.exit_code)


def as_told(error: OSError) -> HardnegError:
    """The error of hardneg's that says what the system's one does: of writing (5), or of reading (4)."""
    number, name = error.errno or 0, error.filename2 or error.filename
    where = str(name) if name is not None else "standard output or a file"
    if number in _ROOM:
        return ArtifactError(f"{where}: {_ROOM[number]}")
    if number in _CLOSED and name is not None and not _closed_to_read(name):
        return ArtifactError(f"{where}: {error.strerror}: write to another place, or look to its rights")
    return DataError(f"{where}: cannot be read ({error.strerror or error})")


def _closed_to_read(name: str | bytes) -> bool:
    """Whether something that is there may not be read, or it may not even be seen what is."""
    return not os.access(os.path.dirname(os.path.abspath(name)), os.X_OK) or (
        os.path.exists(name) and not os.access(name, os.R_OK)
    )


def drop_stdout() -> None:
    """Lets stdout go nowhere where it cannot be written, so that the program's end does not complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
