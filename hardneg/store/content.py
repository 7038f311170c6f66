"""Store contents: atomic file writes, digests that identify content, options in keys, and recorded choices."""

import errno
import fcntl
import gzip
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, cast

from hardneg.records import ArtifactError, DataError, HardnegError
from hardneg.runtime import from_whoever_asks_first

_ASIDE = re.compile(r"\..*\.[0-9a-f]{12}\.tmp")
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EACCES, errno.ENOTSUP, errno.ENOSYS}
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_read_files: ContextVar[dict[Path, tuple[int, ...]] | None] = ContextVar("files that a digest covers", default=None)


def aside(path: Path) -> Path:
    """Return a temporary path next to `path`, with a name that no other thread, process or host uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def remove_asides(folder: Path) -> None:
    """Remove temporary files left by dead writers in and below `folder`; no other writer may be active there."""
    for path in folder.rglob(".*.tmp"):
        if _ASIDE.fullmatch(path.name):
            path.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path`, complete and flushed to disk, at the end of the block.

    If the block fails, `path` is unchanged. If the name ends in `.gz`, the content is compressed; equal content gives
    equal bytes. Several threads and processes may replace the same file; the last version stays.
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
    """Open a new folder that replaces `folder`, complete and flushed to disk, at the end of the block.

    If the block fails, `folder` is unchanged. Other threads and processes that replace the same folder wait; the last
    version stays. Temporary folders left by a dead process are removed by the next one.
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
    """Hold a lock file and remove it afterwards; a process that waited for a removed file creates it again."""
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
    """Replace the contents of the file `path` with text in UTF-8, as `replacing` does."""
    with replacing(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace the contents of the file `path` with JSON, as `replacing` does."""
    with replacing(path) as file:
        file.write(f"{json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)}\n".encode())


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
    """Replace the folder `target` with links to the files below `source`, except those named `excluded`; return it."""
    with replacing_folder(target) as folder:
        for path in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in excluded):
            link_file(path, folder / path.relative_to(source))
    return target


def link_file(source: Path, target: Path) -> Path:
    """Replace `target` with a hard link to the file `source`, or a copy if no link is possible; return `target`."""
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


@contextmanager
def disk_errors(where: Path, option: str = "store") -> Iterator[None]:
    """Turn disk errors in the block into one-line messages with a path and advice.

    where: the path to name if an error has none. option: the argument that chooses another folder. Raises ArtifactError
    if the disk is full, read-only, broken, or not writable by this user.
    """
    option = f"{{{option}}}" if option.isidentifier() else option
    advice = {
        errno.ENOSPC: "the disk is full; free some space and run again to resume from here",
        errno.EDQUOT: "the disk quota is used up; free some space and run again to resume from here",
        errno.EFBIG: "the file exceeds the size limit (ulimit -f); raise it and run again to resume from here",
        errno.EIO: "the disk cannot be read or written; check it, then run again",
        errno.EROFS: f"the disk is read-only; choose another folder with {option}",
        errno.EACCES: f"writing is not allowed; choose another folder with {option}",
        errno.EPERM: f"writing is not allowed; choose another folder with {option}",
    }
    try:
        yield
    except OSError as error:
        if error.errno not in advice:
            raise
        path = error.filename2 or error.filename or where  # for two paths, the second is the one written
        raise ArtifactError(f"{path}: {advice[error.errno]}", option.strip("{}")) from error


@dataclass(frozen=True)
class Content:
    """Content outside the store, identified by its digest.

    find: a function that computes the digest. files: the state of each file that it read, by path (see `note_read`).
    """

    find: Callable[[], str]
    digest: str
    files: dict[Path, tuple[int, ...]]

    @classmethod
    def of(cls, find: Callable[[], str]) -> "Content":
        """Call `find` and return the content: its digest, and the states of the files that `find` reads."""
        files = dict[Path, tuple[int, ...]]()
        token = _read_files.set(files)
        try:
            return cls(find, find(), files)
        finally:
            _read_files.reset(token)

    def check(self) -> None:
        """Recompute the digest if a file's size, times or inode changed. Raises DataError if the content changed."""
        moved = {path: state for path, noted in self.files.items() if (state := note_read(path)) != noted}
        if moved:
            now = ""
            with suppress(HardnegError, OSError):  # gone, or half written
                now = self.find()
            if now != self.digest:
                file = min(moved, key=Path.is_dir)
                raise DataError(f"{file} changed during the run; run again")
            self.files.update(moved)


def note_read(path: Path) -> tuple[int, ...]:
    """Return size, mtime, ctime (ns) and inode of a path, () if missing; record them for the current `Content.of`."""
    state: tuple[int, ...] = ()
    with suppress(OSError):
        status = path.stat()
        state = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    if (files := _read_files.get()) is not None:
        files.setdefault(path, state)
    return state


def digest(value: Any) -> str:
    """Return the digest of a JSON value as 32 hexadecimal digits; the order of keys does not matter.

    Raises TypeError if the value is not valid in JSON, and ValueError if a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's bytes as 32 hexadecimal digits."""
    note_read(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def tree_digest(root: Path, names: Iterable[str] | None = None) -> str:
    """Return a digest of the paths and bytes of all files below `root`, or of those with the relative paths `names`."""
    paths = sorted(root.joinpath(name) for name in names) if names is not None else sorted(root.rglob("*"))
    for folder in {root, *(each for path in paths for each in path.parents if root in each.parents)}:
        note_read(folder)
    return digest([[path.relative_to(root).as_posix(), file_digest(path)] for path in paths if path.is_file()])


_MARK = "in_identity"
FREE: dict[str, Any] = {_MARK: False}
"""Mark for a pydantic field that cannot change a result and is therefore left out of keys."""

LATER: dict[str, Any] = {_MARK: "unless it has its default"}
"""Mark for a pydantic field that older versions did not have: it is in a key only if it differs from its default."""

_LEGACY: Mapping[str, tuple[str, Mapping[Any, str]]] = {
    "iterate_negatives": ("order", {True: "consecutive"}),
    "false_negative_mask": ("mask", {False: "none"}),
}
"""The names and values that keys use for training options, where these differ from those in recipes."""


def options_in_key(options: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that are part of a key, by name, as JSON values, including defaults.

    Options marked `FREE` are omitted, as are options marked `LATER` that have their defaults. A dataclass has these
    marks in the metadata of its fields, or lists the options in its class variables `free` and `later`.

    Args:
        options: a pydantic model or a dataclass.
        without: options to omit because the key contains a digest of the content that they refer to.
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
    """Return a configured plugin's part of a key: name, version, and the result of `options_in_key`."""
    return {"name": name, "version": type(plugin).version, "options": options_in_key(plugin, without)}


def legacy_key_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return training options with the names and values used in keys, so that keys of older versions stay valid."""
    renamed = {}
    for name, value in options.items():
        word, values = _LEGACY.get(name, (name, {}))
        renamed[word] = values.get(value, value) if values else value
    return renamed


CHOICE = "choice/"
"""Prefix of a choice's subject in files of choices and in messages between processes."""

_chosen: dict[str, str] = {}
_listening: list[tuple[dict[str, str], Path | None]] = []


def choose(subject: str, best: str, *others: str) -> str:
    """Return the choice recorded for a subject if it is `best` or one of `others`; if not, record and return `best`.

    Use this for algorithms that round differently, so that a resumed step keeps its choice even on another machine. In
    several processes, the first call decides.
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
    """Yield a dict that collects the choices made in the block, by subject; choices in `earlier` are repeated.

    file: a JSON file that keeps the choices for a resumed run; choices left in it by a stopped run are repeated too.
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
    """Return the folder for data cached between runs, following the XDG specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardneg"
