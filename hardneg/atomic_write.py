"""Files and folders that a reader sees old or new, never half-written: written aside, on disk, then renamed."""

import gzip
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in place of `path`, which it becomes at the end of the block, whole and on disk.

    Where the block fails, `path` stays as it was. A name that ends in `.gz` is written as gzip, of which equal
    content gives equal bytes. Several processes may replace one file: the last one's stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as raw:
            if path.name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(aside, path)
        flush(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write in place of `folder`, which it becomes at the end of the block, whole and on disk.

    Where the block fails, `folder` stays as it was. What a process that died has left aside goes with the next one, so
    one process at a time may replace a folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.tmp")
    old = folder.with_name(f"{aside.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        yield aside
        for path in [*aside.rglob("*"), aside]:
            flush(path)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.replace(folder, old)
        os.replace(aside, folder)
        flush(folder.parent)
    finally:
        for left in (aside, old):
            shutil.rmtree(left, ignore_errors=True)


def replace_text(path: Path, text: str) -> None:
    """Writes a text in place of `path`, as `replacing` does."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def system_errors() -> Iterator[None]:
    """Raises OSError for what libraries written in Rust wrap in exceptions of their own, such as a full disk."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or not (told := _SYSTEM_ERROR.search(str(error))):
            raise
        raise OSError(int(told[1]), os.strerror(int(told[1]))) from error


def link_folder(source: Path, target: Path, without: Collection[str] = ()) -> Path:
    """Puts the files below `source` at `target`, which is replaced whole; `without`: names that are left out."""
    with replacing_folder(target) as aside:
        for path in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in without):
            link_file(path, aside / path.relative_to(source))
    return target


def link_file(source: Path, target: Path) -> Path:
    """Puts the file `source` at `target`, as a hard link or a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.new")
    aside.unlink(missing_ok=True)
    if target.exists() and target.samefile(source):  # a link to itself is not renamed: it would stay aside
        return target
    try:
        os.link(source, aside)
    except OSError:
        shutil.copyfile(source, aside)
    os.replace(aside, target)
    return target


def flush(path: Path) -> None:
    """Waits until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
