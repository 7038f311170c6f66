"""The artifacts that results use: what `gc` keeps, and how a command knows its own earlier output.

<store>/roots/<owner>.json           a result that is there: the keys it uses, the command, its files as they were
<store>/roots/<owner>-<keys>.json    a run that has begun and has not finished; its keys are kept until it finishes
<store>/locks/<the same>             held, shared, for as long as it runs
"""

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.records import ArtifactError
from hardneg.store.artifacts import Store, disk_errors, write_json
from hardneg.store.atomic_write import replace_text
from hardneg.store.identity import digest

Files = Mapping[str, Sequence[int]]
"""Size, time and, of a link into the store, inode of each file of a result, by its path in the result."""


@dataclass(frozen=True)
class Record:
    """A result in the store's records: the command that wrote it, and its files; None while they are being written."""

    command: str
    files: Files | None


@dataclass(frozen=True)
class Unfinished:
    """An unfinished run: the path of its result, its start (Unix time), and its keys."""

    root: Path
    owner: Path
    command: str
    begun: float
    keys: frozenset[str]
    running: bool


def keep(store: Store, owner: Path, keys: Sequence[str], command: str = "", files: Files | None = None) -> None:
    """Record that the result `owner` uses `keys`, which `gc` keeps as long as it exists; not in a read-only store.

    Raises:
        ArtifactError: the disk is full.
    """
    if store.read_only:
        return
    owner = owner.resolve()
    content = {"owner": str(owner), "keys": sorted(set(keys)), "command": command, "files": files}
    with disk_errors(store.root):
        write_json(_root(store, owner), content)


@contextlib.contextmanager
def begun(store: Store, command: str, owner: Path, keys: Sequence[str]) -> Iterator[None]:
    """Keep `keys` while the block runs; if it fails, until a later run succeeds, or `gc` forgets it."""
    if store.read_only:
        yield
        return
    owner = owner.resolve()
    name = f"{digest(str(owner))}-{digest(sorted(keys))}"
    root = store.root / "roots" / f"{name}.json"
    content = {"owner": str(owner), "keys": sorted(set(keys)), "command": command, "begun": time.time()}
    with store.lock(name, shared=True):
        with disk_errors(store.root):
            write_json(root, content)
        yield
        root.unlink(missing_ok=True)


@contextlib.contextmanager
def laid_out(store: Store, command: str, owner: Path, keys: Sequence[str], tops: Sequence[Path]) -> Iterator[None]:
    """Record that `owner` is being written, and at the end the files and folders at `tops`.

    What an earlier run of the command wrote elsewhere in `owner` stays recorded until it changes.
    If the block fails before it has changed anything, the earlier record is restored.
    """
    root, earlier = _root(store, owner.resolve()), record(store, owner)
    own = earlier.files or {} if earlier and earlier.command == command else {}
    known, before = root.read_bytes() if root.exists() else None, files_of(owner, tops)
    keep(store, owner, keys, command)
    try:
        yield
    except BaseException:
        with contextlib.suppress(ArtifactError, OSError):
            if (now := files_of(owner, tops)) != before:
                keep(store, owner, keys, command, {**_unchanged(owner, own), **now})
            elif known is None:
                root.unlink(missing_ok=True)
            elif not store.read_only:
                replace_text(root, known.decode())
        raise
    keep(store, owner, keys, command, {**_unchanged(owner, own), **files_of(owner, tops)})


def files_of(owner: Path, tops: Sequence[Path]) -> dict[str, list[int]]:
    """Return the existing files at and below `tops`, in the form of `Files`."""
    states = {}
    for top in filter(os.path.lexists, tops):
        for path in sorted(top.rglob("*")) if top.is_dir() and not top.is_symlink() else [top]:
            if path.is_symlink() or not path.is_dir():
                status = path.lstat()
                inode = status.st_ino if status.st_nlink > 1 else 0
                states[path.relative_to(owner).as_posix()] = [status.st_size, status.st_mtime_ns, inode]
    return states


def strangers(owner: Path, top: Path, known: Files) -> Iterator[Path]:
    """Return the files at or below `top` that a result's record lacks, or that changed since."""
    for name, state in files_of(owner, [top]).items():
        if not _is(state, known.get(name)):
            yield owner / name


def record(store: Store, owner: Path) -> Record | None:
    """Return the store's record of the result at `owner`."""
    entry = _read(_root(store, owner.resolve()))
    return Record(entry.get("command", ""), entry.get("files")) if entry else None


def unfinished(store: Store) -> list[Unfinished]:
    """Return the unfinished runs, the earliest first."""
    runs = []
    for path in store.root.glob("roots/*-*.json"):
        if entry := _read(path):
            keys, owner = frozenset(entry["keys"]), Path(entry["owner"])
            runs.append(Unfinished(path, owner, entry["command"], entry["begun"], keys, store.held(path.stem)))
    return sorted(runs, key=lambda run: run.begun)


def owners(store: Store, key: str) -> list[Path]:
    """Return the results, finished or not, that use a key."""
    entries = map(_read, store.root.glob("roots/*.json"))
    return sorted({Path(entry["owner"]) for entry in entries if entry and key in entry["keys"]})


def garbage(store: Store, forget: bool = False) -> list[tuple[Path, int]]:
    """Return the folders that no result, no unfinished run and no process uses, with their sizes in bytes.

    forget: ignore unfinished runs that are not running.
    """
    kept = _kept(store, forget)
    free = [path for path in store.folders() if _key(path) not in kept and not store.held(_key(path))]
    return [(path, _size(path)) for path in free]


def collect(store: Store, forget: bool = False) -> list[tuple[Path, int]]:
    """Remove the garbage, and the records of results that no longer exist; return what was removed.

    Runs may begin meanwhile: each folder is renamed while its lock is held and no run has noted its key.

    Raises:
        ArtifactError: something cannot be removed.
    """
    removed = []
    with disk_errors(store.root):
        for run in unfinished(store) if forget else ():
            with store.lock_if_free(run.root.stem) as free:
                if free:
                    run.root.unlink(missing_ok=True)
        for path in store.root.glob("roots/*.json"):
            entry = _read(path)
            if entry and "begun" not in entry and not os.path.lexists(entry["owner"]):
                path.unlink(missing_ok=True)
        kept = _kept(store)
        for path in store.folders():
            if _key(path) not in kept and (doomed := _taken_away(store, path)):
                removed.append((path, _size(doomed)))
                shutil.rmtree(doomed)
    return removed


def _kept(store: Store, forget: bool = False) -> set[str]:
    kept: set[str] = set()
    for run in unfinished(store):
        kept |= run.keys if run.running or not forget else set()
    for path in store.root.glob("roots/*.json"):
        entry = _read(path)
        if entry and "begun" not in entry and os.path.lexists(entry["owner"]):
            kept.update(entry["keys"])
    return kept


def _taken_away(store: Store, path: Path) -> Path | None:
    """Rename a folder so that no run finds it; return None where a run uses it by now."""
    doomed = path.with_name(f"{_key(path)}.{secrets.token_hex(6)}.discarded")
    with store.lock_if_free(_key(path)) as free:
        if not free or _key(path) in _kept(store):
            return None
        try:
            path.rename(doomed)
        except FileNotFoundError:  # another process has removed it
            return None
        if _key(path) in _kept(store):  # a run has noted and found it meanwhile
            doomed.rename(path)
            return None
    return doomed


def _key(folder: Path) -> str:
    return folder.name.split(".")[0]


def _size(folder: Path) -> int:
    """Return the bytes of its files; some may be removed meanwhile."""
    total = 0
    for path in filter(Path.is_file, folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _root(store: Store, owner: Path) -> Path:
    return store.root / "roots" / f"{digest(str(owner))}.json"


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a root; empty where there is none.

    Raises:
        ArtifactError: it cannot be read, so the keys that it keeps are unknown.
    """
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: damaged: {error}; remove it if nothing that it kept is needed") from None
    if not isinstance(entry, dict) or not {"owner", "keys"} <= entry.keys():
        raise ArtifactError(f"{path}: damaged: it names no keys; remove it if nothing that it kept is needed")
    return entry


def _unchanged(owner: Path, known: Files) -> Files:
    return {name: noted for name, noted in known.items() if _is(files_of(owner, [owner / name]).get(name), noted)}


def _is(state: Sequence[int] | None, noted: Sequence[int] | None) -> bool:
    """Return whether a file has the recorded state: the same size and time, or the same link into the store."""
    return bool(state and noted and (state[:2] == noted[:2] or (noted[2] and noted[2] == state[2])))
