"""Outputs of commands, checked before they are written and recorded afterwards, and the artifacts that they use.

<store>/roots/<owner>.json           a written output: the keys that it uses, the command, the state of its files
<store>/roots/<owner>-<keys>.json    an unfinished run; its keys are kept until it finishes
<store>/locks/<the same>             locked, shared, while that run is in progress
"""

import contextlib
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.records import ArtifactError, UsageError
from hardneg.runtime import world
from hardneg.store.artifacts import Store, may_write
from hardneg.store.content import aside, digest, disk_errors, replace_text, write_json

Files = Mapping[str, Sequence[int]]
"""Size, modification time (ns), and inode (0 without other hard links) of each file of an output, by relative path."""
WHOLE = ("",)
_log = logging.getLogger("hardneg")


@dataclass(frozen=True)
class Unfinished:
    """An unfinished run. root: its record file. owner: its output. started: Unix time. running: whether it runs now."""

    root: Path
    owner: Path
    command: str
    started: float
    keys: frozenset[str]
    running: bool


@contextlib.contextmanager
def reserve(store: Store, command: str, owner: Path, keys: Sequence[str]) -> Iterator[None]:
    """Protect `keys` from `gc` during the block; if it fails, until a later run succeeds or `gc` forgets this one."""
    if store.read_only:
        yield
        return
    owner = owner.resolve()
    name = f"{digest(str(owner))}-{digest(sorted(keys))}"
    root = store.root / "roots" / f"{name}.json"
    with store.lock(name, shared=True):
        with disk_errors(store.root):
            content = {"owner": str(owner), "keys": sorted(set(keys)), "command": command}
            write_json(root, {**content, "begun": time.time()})
        yield
        root.unlink(missing_ok=True)


@contextlib.contextmanager
def publish(store: Store, command: str, owner: Path, keys: Sequence[str], tops: Sequence[Path]) -> Iterator[None]:
    """Record that output `owner` is being written, and at the end record the files and folders at `tops`.

    `gc` keeps `keys` as long as `owner` exists. Files that an earlier run of the command wrote elsewhere in `owner`
    stay recorded until they change. If the block fails before it has changed anything, the earlier record is restored.
    Nothing is recorded in a read-only store.

    Raises:
        ArtifactError: the earlier record is damaged, or the disk is full.
    """
    if store.read_only:
        return (yield)
    root, finished = store.root / "roots" / f"{digest(str(owner.resolve()))}.json", False
    earlier, previous = _read(root), root.read_bytes() if root.exists() else None
    own: Files = earlier.get("files") or {} if earlier.get("command") == command else {}
    content = {"owner": str(owner.resolve()), "keys": sorted(set(keys)), "command": command}
    before = files_of(owner, tops)
    with disk_errors(store.root):
        write_json(root, {**content, "files": None})
    try:
        yield
        finished = True
    finally:
        failures = () if finished else (ArtifactError, OSError)  # the failure of the block counts
        with contextlib.suppress(*failures), disk_errors(store.root):
            now, there = files_of(owner, tops), files_of(owner, [owner / name for name in own])
            unchanged = {name: noted for name, noted in own.items() if _same(there.get(name), noted)}
            if finished or now != before:
                write_json(root, {**content, "files": {**unchanged, **now}})
            elif previous is None:
                root.unlink(missing_ok=True)
            else:
                replace_text(root, previous.decode())


def files_of(owner: Path, tops: Sequence[Path]) -> dict[str, list[int]]:
    """Return the existing files at and below `tops` as `Files`, with paths relative to `owner`."""
    states = {}
    for top in filter(os.path.lexists, tops):
        for path in sorted(top.rglob("*")) if top.is_dir() and not top.is_symlink() else [top]:
            if path.is_symlink() or not path.is_dir():
                status = path.lstat()
                inode = status.st_ino if status.st_nlink > 1 else 0
                states[path.relative_to(owner).as_posix()] = [status.st_size, status.st_mtime_ns, inode]
    return states


def _same(state: Sequence[int] | None, noted: Sequence[int] | None) -> bool:
    """Return whether a file has the recorded state: the same size and time, or the same link into the store."""
    return bool(state and noted and (state[:2] == noted[:2] or (noted[2] and noted[2] == state[2])))


def unfinished(store: Store) -> list[Unfinished]:
    """Return the unfinished runs that have a record in the store, earliest first."""
    runs = []
    for path in store.root.glob("roots/*-*.json"):
        if entry := _read(path):
            keys, owner = frozenset(entry["keys"]), Path(entry["owner"])
            runs.append(Unfinished(path, owner, entry["command"], entry["begun"], keys, store.held(path.stem)))
    return sorted(runs, key=lambda run: run.started)


def owners(store: Store, key: str) -> list[Path]:
    """Return the sorted paths of the outputs, finished or not, that use the artifact of `key`."""
    entries = map(_read, store.root.glob("roots/*.json"))
    return sorted({Path(entry["owner"]) for entry in entries if entry and key in entry["keys"]})


def garbage(store: Store, forget: bool = False) -> list[tuple[Path, int]]:
    """Return the artifact folders that no output, unfinished run or process uses, with their sizes in bytes.

    forget: whether to ignore unfinished runs that no process is running.
    """
    used = _used(store, forget)
    free = [path for path in store.folders() if _key(path) not in used and not store.held(_key(path))]
    return [(path, _size(path)) for path in free]


def collect(store: Store, forget: bool = False) -> list[tuple[Path, int]]:
    """Remove garbage and the records of deleted outputs; return the removed folders with their sizes in bytes.

    Other runs may start meanwhile: a folder is removed only if none of them uses its key. forget: as in `garbage`.

    Raises:
        ArtifactError: a folder cannot be removed.
    """
    removed = []
    with disk_errors(store.root):
        for run in unfinished(store) if forget else ():
            with store.lock(run.root.stem, patient=False) as free:
                if free:
                    run.root.unlink(missing_ok=True)
        for path in store.root.glob("roots/*.json"):
            entry = _read(path)
            if entry and "begun" not in entry and not os.path.lexists(entry["owner"]):
                path.unlink(missing_ok=True)
        used = _used(store)
        for path in store.folders():
            if _key(path) not in used and (doomed := _withdraw(store, path)):
                removed.append((path, _size(doomed)))
                shutil.rmtree(doomed)
    return removed


def _used(store: Store, forget: bool = False) -> set[str]:
    used: set[str] = set()
    for run in unfinished(store):
        used |= run.keys if run.running or not forget else set()
    for path in store.root.glob("roots/*.json"):
        entry = _read(path)
        if entry and "begun" not in entry and os.path.lexists(entry["owner"]):
            used.update(entry["keys"])
    return used


def _withdraw(store: Store, path: Path) -> Path | None:
    """Rename a folder so that no run finds it, and return the new path; return None if a run uses it or it is gone."""
    doomed = path.with_name(f"{_key(path)}.{secrets.token_hex(6)}.discarded")
    with store.lock(_key(path), patient=False) as free:
        if not free or _key(path) in _used(store):
            return None
        try:
            path.rename(doomed)
        except FileNotFoundError:  # another process has removed it
            return None
        if _key(path) in _used(store):  # a run has noted and found it meanwhile
            doomed.rename(path)
            return None
    return doomed


def _key(folder: Path) -> str:
    return folder.name.split(".")[0]


def _size(folder: Path) -> int:
    """Return the total size of a folder's files in bytes, without files that are removed meanwhile."""
    total = 0
    for path in filter(Path.is_file, folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _read(path: Path) -> dict[str, Any]:
    """Return the record in a file of `roots/`; empty if there is no file.

    Raises:
        ArtifactError: the record cannot be read, so the keys that it keeps are unknown.
    """
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: damaged: {error}; remove it if you no longer need the results it lists") from None
    if not isinstance(entry, dict) or not {"owner", "keys"} <= entry.keys():
        raise ArtifactError(f"{path}: damaged: no keys; remove it if you no longer need the results it lists")
    return entry


@dataclass(frozen=True)
class Target:
    """A file or folder to write, which is replaced as a whole, or a run folder, in which only `names` are replaced.

    names: relative paths that may be written into a run folder; those of folders end in "/". marked_by: the file that
    identifies a run folder. use: how to use an existing file, for the message that refuses to replace it.
    """

    path: Path
    folder: bool = False
    names: Sequence[str] = WHOLE
    marked_by: str = ""
    use: str = ""


@dataclass(frozen=True)
class Words:
    """Words in messages: for the output argument, the overwrite argument and the writer, with `{}` for the command."""

    output: str = "path"
    overwrite: str = "overwrite=True"
    writer: str = "{}"


@dataclass(frozen=True)
class Outputs:
    """All outputs and inputs of one command or function, and the store that records results.

    command: the writer, which may replace its own earlier output. keys: the keys of the artifacts behind the outputs,
    which `reserve` and `publish` protect from `gc`. tell: a function that shows a message to the user.
    """

    command: str
    targets: Sequence[Target]
    inputs: Sequence[Path]
    store: Store
    overwrite: bool = False
    keys: Sequence[str] = ()
    words: Words = Words()
    tell: Callable[[str], None] = _log.warning

    def check(self) -> None:
        """Reject outputs that would replace the user's files or that cannot be written.

        Raises:
            UsageError: an output equals, contains or is inside an input, or exists and was not written by this command.
            ArtifactError: an output cannot be written.
        """
        paths, another = [target.path.resolve() for target in self.targets], f"give another {self.words.output}"
        if root := next((path for path in paths if path == path.parent), None):
            raise UsageError(f"{root}: is the root folder; give a separate folder")
        tops = [target.path / name for target in self.targets for name in target.names]
        for top in tops:
            try:
                aside(top.absolute()).lstat()
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:  # a name that is too long, a closed folder
                raise ArtifactError(f"{top}: cannot be written ({error.strerror}); {another}") from None
        problems = [f"{path}: is given for two outputs; {another}" for path in set(paths) if paths.count(path) > 1]
        for target in self.targets:
            problems += _path_problems(target, another) or self._file_problems(target, another)
        if problems:
            raise UsageError("\n".join(problems))
        for top in tops:
            there = next(folder for folder in top.absolute().parents if folder.exists())
            if not there.is_dir() or not may_write(there):
                reason = "writing is not allowed there" if there.is_dir() else "is a file, not a folder"
                raise ArtifactError(f"{there}: {reason}; {another}")

    @contextlib.contextmanager
    def reserve(self) -> Iterator[None]:
        """Check the outputs, and protect their artifacts from `gc` during the block and after an interruption."""
        self.check()
        with contextlib.ExitStack() as stack:
            if world().rank == 0 and self.keys:
                stack.enter_context(reserve(self.store, self.command, self.targets[0].path, self.keys))
            yield

    @contextlib.contextmanager
    def publish(self) -> Iterator[None]:
        """Record the files written in the block as this command's own; tell the user if they cannot be recorded.

        Raises:
            ArtifactError: the disk is full, read-only, or not writable by this user.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(disk_errors(self.targets[0].path, self.words.output))
            for target in self.targets:
                tops = [target.path / name for name in target.names]
                reason: object = f"the store {self.store.root} is read-only" if self.store.read_only else None
                try:
                    stack.enter_context(publish(self.store, self.command, target.path, self.keys, tops))
                except (ArtifactError, OSError) as error:
                    reason = error
                if reason is not None:
                    self.tell(f"{target.path}: not recorded ({reason}); replacing it needs {self.words.overwrite}")
            yield

    def _file_problems(self, target: Target, another: str) -> Iterator[str]:
        """Yield a line for each input that the target would replace, and one for files that another writer wrote."""
        tops = [target.path / name for name in target.names]
        for source in filter(os.path.exists, [*self.inputs, self.store.root]):
            read = source.resolve()
            for top in tops:
                resolved, relation = top.resolve(), ""
                if resolved == read or (top.exists() and top.samefile(read)):
                    relation = "is"
                elif read.is_dir() and resolved.is_relative_to(read):
                    relation = "is in"
                elif read.is_relative_to(resolved):
                    relation = "contains"
                if relation:
                    yield f"{top}: {relation} {source}, which is an input; {another}"
        if self.overwrite:
            return
        record = _read(self.store.root / "roots" / f"{digest(str(target.path.resolve()))}.json")
        is_own = record.get("command") == self.command
        files = record.get("files") if is_own else {}
        if files is None or (not is_own and target.marked_by and (target.path / target.marked_by).is_file()):
            return
        there = files_of(target.path, tops)
        if not (foreign := [name for name, state in there.items() if not _same(state, files.get(name))]):
            return
        first = ", ".join(str(target.path / name) for name in foreign[:3])
        first += f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        writer = f"`{self.words.writer.format(self.command)}`"
        reason = f"has changed since {writer} wrote it" if {*foreign} <= {*files} else f"was not written by {writer}"
        advice = f"{target.use}; {another}" if target.use else another
        yield f"{first}: already exists and {reason}; {advice}, or {self.words.overwrite} to replace it"


def _path_problems(target: Target, another: str) -> list[str]:
    path = target.path
    for number, part in enumerate(path.parts):  # creating a folder before a `..` would change where the path leads
        if part == ".." and not (before := Path(*path.parts[:number])).is_dir():
            return [f"{path}: {before} does not exist; give a path without it"]
    if target.names != WHOLE:
        if os.path.lexists(path) and not path.is_dir():
            reason = "is a file" if path.exists() else "is a broken symbolic link"
            return [f"{path}: {reason}; give the folder to write"]
        problems = []
        for name in target.names:
            top = path / name
            wanted, is_wanted = ("folder", top.is_dir) if name.endswith("/") else ("file", top.is_file)
            if top.is_symlink() or (top.exists() and not is_wanted()):
                obstacle = "a symbolic link" if top.is_symlink() else f"not a {wanted}"
                problems.append(f"{top}: is {obstacle}, but a {wanted} is expected; move it away, or {another}")
        return problems
    if path.is_symlink():
        return [f"{path}: is a symbolic link; give its target"]
    if path.exists() and not (path.is_dir() if target.folder else path.is_file()):
        wanted = "folder" if target.folder else "file"
        return [f"{path}: is {'a folder' if path.is_dir() else 'a file'}; give the {wanted} to write"]
    resolved, home = path.resolve(), Path(os.path.expanduser("~")).resolve()
    if target.folder and any(kept.is_relative_to(resolved) for kept in (Path.cwd(), home)):
        return [f"{path}: is or contains your working folder or home; give a separate folder"]
    return []
