"""Atomic writes of files and folders: written under another name, flushed to disk, then renamed."""

import errno
import fcntl
import gzip
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_ASIDE = re.compile(r"\..*\.[0-9a-f]{12}\.tmp")
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EACCES, errno.ENOTSUP, errno.ENOSYS}
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


def aside(path: Path) -> Path:
    """Return a temporary path next to `path`, under a name that no other thread, process or host uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def remove_asides(folder: Path) -> None:
    """Remove temporary files of dead writers in `folder` and below it; nobody may be writing there."""
    for path in folder.rglob(".*.tmp"):
        if _ASIDE.fullmatch(path.name):
            path.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` at the end of the block, whole and on disk.

    If the block fails, `path` stays as it was. A name that ends in `.gz` is written as gzip; equal content gives equal
    bytes. Several threads and processes may replace one file: the last one's stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = aside(path)
    try:
        with new.open("xb") as raw:
            if path.name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(new, path)
        flush(path.parent)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Open a new folder that replaces `folder` at the end of the block, whole and on disk.

    If the block fails, `folder` stays as it was. One thread at a time replaces a folder, the others wait: the last
    one's stays. Remains of a dead process are removed by the next one.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = (folder.with_name(f".{folder.name}.tmp{end}") for end in ("", ".old"))
    with _alone(folder.with_name(f".{folder.name}.lock")):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        try:
            yield new
            for path in [*new.rglob("*"), new]:
                flush(path)
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.replace(folder, old)
            os.replace(new, folder)
            flush(folder.parent)
        finally:
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, removed afterwards: a process that waited for a removed one creates it again."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if lock.exists() and os.path.samestat(os.fstat(handle), lock.stat()):
                try:
                    return (yield)
                finally:
                    lock.unlink()
        finally:
            os.close(handle)


def replace_text(path: Path, text: str) -> None:
    """Write a text in place of `path`, as `replacing` does."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def system_errors() -> Iterator[None]:
    """Raise OSError for system errors that libraries in Rust wrap in their own exceptions, such as a full disk."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or not (code := _SYSTEM_ERROR.search(str(error))):
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1]))) from error


def link_folder(source: Path, target: Path, excluded: Collection[str] = ()) -> Path:
    """Link the files below `source`, except those named `excluded`, into `target`, which is replaced whole."""
    with replacing_folder(target) as folder:
        for path in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in excluded):
            link_file(path, folder / path.relative_to(source))
    return target


def link_file(source: Path, target: Path) -> Path:
    """Link the file `source` at `target`, or copy it where the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and target.samefile(source):  # renaming a link onto itself leaves the temporary name
        return target
    new = aside(target)
    try:
        try:
            os.link(source, new)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, new)
            flush(new)
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)
    return target


def flush(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
