"""The content-addressed store: one folder per artifact, finished by writing its manifest and renaming it.

<store>/<key>/              a finished artifact, with manifest.json
<store>/<key>.partial/      an unfinished one, in progress or left by a stopped run; the next run resumes it
<store>/locks/<key>         locked while the artifact is made; the system unlocks it when the process dies
<store>/roots/              the keys that `gc` keeps, and the outputs that use them (`hardneg.store.outputs`)
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.records import ArtifactError, ClosedArtifact, NewerArtifact, NotOurs
from hardneg.runtime import Progress
from hardneg.store.content import digest, disk_errors, file_digest, flush, remove_asides, write_json

FORMAT = 1
MANIFEST = "manifest.json"
SCRATCH = "checkpoints"
"""Folder in a workspace with the files that a stopped stage resumes from; removed when the artifact is finished."""
CHOICES = "choices.json"
"""File in the folder `SCRATCH` with the choices that a resumed stage repeats."""
KEPT = "kept"
"""Folder in an artifact with the models saved during training, each named `step-N`."""
EARLIER = "earlier seconds"
"""Name of the fact with the seconds that earlier, stopped runs of a stage took; the fact `seconds` includes them."""
_FOLDER = re.compile(r"[0-9a-f]{32}(\.partial|(\.[0-9a-f]{12})?\.discarded)?")


@dataclass(frozen=True)
class Artifact:
    """A finished artifact.

    key: the digest that identifies the artifact. artifact_type: `index`, `run`, ... path: the folder. facts: counts and
    measures reported by the stage. origin: the stage's name, and everything that the key is a digest of. files: the
    digest of each file, by path in the folder; empty strings in artifacts from early versions of hardneg.
    """

    key: str
    artifact_type: str
    path: Path
    facts: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Store:
    """The artifacts below `root`, each in a folder named by its key."""

    root: Path

    def find(self, key: str) -> Artifact | None:
        """Return the finished artifact of `key` after checking that its files have the right sizes; None if missing.

        Raises:
            ArtifactError: the artifact is damaged.
            NotOurs: a newer version of hardneg wrote the artifact, or another user did and it is not readable.
        """
        folder = self.root / key
        path = folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if folder.exists():
                raise ArtifactError(f"{folder}: damaged: {MANIFEST} is missing") from None
            return None
        except PermissionError:
            advice = "made by another user and not readable by you; ask for read permission, or choose another folder"
            raise ClosedArtifact(f"{folder}: {advice} with {{store}}", "store") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ArtifactError(f"{path}: damaged: {error}") from None
        if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
            raise ArtifactError(f"{path}: damaged: not a manifest")
        if manifest["format"] > FORMAT:
            newer = f"written by a newer hardneg (format {manifest['format']}; this one reads {FORMAT})"
            raise NewerArtifact(f"{path}: {newer}; upgrade hardneg or use another {{store}}", "store")
        for name, size in manifest["files"].items():
            try:
                actual = (folder / name).stat().st_size
            except OSError:
                raise ArtifactError(f"{folder}: damaged: {name} is missing") from None
            if actual != size:
                raise ArtifactError(f"{folder}: damaged: {name} has {actual} bytes, but its manifest says {size}")
        digests = manifest.get("digests", {})
        files = {name: digests.get(name, "") for name in manifest["files"]}
        return Artifact(key, manifest["kind"], folder, manifest["facts"], manifest["origin"], files)

    def whole(self, key: str, note: Callable[[str], None] = lambda text: None) -> Artifact | None:
        """Return the finished artifact of `key`, or None if it is missing or damaged.

        note: called with a description of any damage. Raises NotOurs as `find` does.
        """
        try:
            return self.find(key)
        except NotOurs:
            raise
        except ArtifactError as error:
            note(f"{error}; recreating it")
            return None

    def discard(self, key: str) -> None:
        """Remove the artifact of `key`, both the finished and the unfinished one, if they exist."""
        with disk_errors(self.root):
            if (self.root / key).exists():
                doomed = self.root / f"{key}.discarded"
                shutil.rmtree(doomed, ignore_errors=True)
                os.replace(self.root / key, doomed)
                shutil.rmtree(doomed)
            shutil.rmtree(self._partial(key), ignore_errors=True)

    @contextlib.contextmanager
    def lock(
        self, key: str, waiting: Callable[[], None] = lambda: None, shared: bool = False, patient: bool = True
    ) -> Iterator[bool]:
        """Hold the lock of `key` during the block; yield whether this process holds it.

        waiting: called once before waiting for another process. shared: whether other processes may also hold a shared
        lock. patient: whether to wait for the lock; if not, False is yielded at once.
        """
        operation, locks = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, self.root / "locks"
        with disk_errors(self.root):
            try:
                locks.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError:
                problem = "cannot be created; choose another folder with {store}"
                raise ArtifactError(f"store {self.root}: {problem}", "store") from None
            handle = os.open(locks / key, os.O_RDWR | os.O_CREAT, 0o666)
        held = True
        try:
            try:
                fcntl.flock(handle, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if held := patient:
                    waiting()
                    fcntl.flock(handle, operation)
            yield held
        finally:
            os.close(handle)

    def workspace(self, key: str) -> Path:
        """Return the folder to build `key` in, with any work left by a stopped run. The caller must hold the lock."""
        with disk_errors(self.root):
            partial = self._partial(key)
            partial.mkdir(parents=True, exist_ok=True)
            (self.root / "locks").mkdir(exist_ok=True)
            (self.root / "locks" / key).touch()  # marks the folder as the store's own for good
            return partial

    def commit(self, key: str, artifact_type: str, facts: Mapping[str, Any], origin: Mapping[str, Any]) -> Artifact:
        """Finish the artifact of `key`: flush the files in its workspace, write the manifest and rename the folder."""
        partial = self._partial(key)
        with disk_errors(self.root):
            remove_asides(partial)
            files, digests = {}, {}
            for path in sorted(partial.rglob("*")):
                if path.relative_to(partial).parts[0] == SCRATCH:
                    continue
                if path.is_file():
                    name = path.relative_to(partial).as_posix()
                    files[name], digests[name] = path.stat().st_size, file_digest(path)
                flush(path)
            manifest = {"format": FORMAT, "key": key, "kind": artifact_type, "facts": facts, "origin": origin}
            write_json(partial / MANIFEST, {**manifest, "files": files, "digests": digests})
        self.recover(key)
        return Artifact(key, artifact_type, self.root / key, facts, origin, digests)

    def recover(self, key: str) -> None:
        """Finish the artifact of `key` if its process died just before the rename. The caller must hold the lock."""
        partial, final = self._partial(key), self.root / key
        if not (partial / MANIFEST).exists() or final.exists():
            return
        with disk_errors(self.root):
            shutil.rmtree(partial / SCRATCH, ignore_errors=True)
            for path in (path for path in partial.rglob("*") if path.is_file()):
                path.chmod(0o444)
            os.replace(partial, final)
            flush(self.root)

    def artifacts(self) -> list[Artifact | ArtifactError]:
        """Return all finished artifacts, or the error for each unreadable one. Raises the same errors as `folders`."""
        finished: list[Artifact | ArtifactError | None] = []
        for path in self.folders():
            if not path.suffix and (path / MANIFEST).exists():
                try:
                    finished.append(self.find(path.name))
                except ArtifactError as error:
                    finished.append(error)
        return [each for each in finished if each is not None]

    def folders(self) -> list[Path]:
        """Return the folders of artifacts, sorted: finished, unfinished or being removed, with a manifest or a lock.

        Raises ArtifactError if the root is not empty, but contains nothing that belongs to a store.
        """
        there = sorted(self.root.iterdir()) if self.root.is_dir() else []
        named = [path for path in there if _FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
        locks = self.root / "locks"
        own = [path for path in named if (path / MANIFEST).exists() or (locks / path.name.partition(".")[0]).exists()]
        if there and not (own or locks.exists() or (self.root / "roots").exists()):
            names = f"{', '.join(path.name for path in there[:3])}{', ...' if len(there) > 3 else ''}"
            raise ArtifactError(f"{self.root}: not a store (it contains {names}); choose one with {{store}}", "store")
        return own

    @property
    def read_only(self) -> bool:
        """Whether the store exists but is not writable, so that artifacts can only be read."""
        folders = [self.root, self.root / "locks", self.root / "roots"]
        return any(folder.is_dir() and not may_write(folder) for folder in folders)

    def held(self, name: str) -> bool:
        """Return whether a process holds the lock of `name`."""
        lock = self.root / "locks" / name
        if not lock.exists():
            return False
        mode, operation = ("rb", fcntl.LOCK_SH) if self.read_only else ("r+b", fcntl.LOCK_EX)
        with lock.open(mode) as handle:
            try:
                fcntl.flock(handle, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _partial(self, key: str) -> Path:
        return self.root / f"{key}.partial"


def may_write(folder: Path) -> bool:
    """Return whether this process may write to a folder; False on a read-only disk."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


@dataclass(frozen=True)
class Checked:
    """The result of checking one artifact.

    stage: the stage that wrote it. size: bytes. problem: one line; empty if intact. size_only: only sizes were compared
    because an early version wrote no digests. newer: a newer hardneg wrote the artifact, so nothing was checked.
    """

    key: str
    stage: str = "?"
    size: int = 0
    problem: str = ""
    size_only: bool = False
    newer: bool = False


def check(store: Store, progress: Progress) -> Iterator[Checked]:
    """Read every byte of every artifact in a store, and yield the results. Raises errors as `Store.folders` does."""
    keys = [path.name for path in store.folders() if not path.suffix]
    with progress.task("checking", len(keys), "artifacts") as task:
        for key in keys:
            yield verified(store, key)
            task.advance()


def damage(folder: Path) -> str:
    """Return a one-line description of the damage to the artifact in `folder`; empty if no damage is found."""
    return verified(Store(folder.parent), folder.name).problem


def verified(store: Store, key: str) -> Checked:
    """Check one artifact by reading every byte. Raises ClosedArtifact if another user wrote it and it is unreadable."""
    try:
        artifact = store.find(key)
    except NewerArtifact:
        return Checked(key, newer=True)
    except ClosedArtifact:
        raise
    except ArtifactError as error:
        return Checked(key, problem=str(error))
    if artifact is None:
        return Checked(key, problem=f"{store.root / key}: missing")
    stage = str(artifact.origin.get("name", "?"))
    size = sum((artifact.path / name).stat().st_size for name in artifact.files)
    if digest({name: value for name, value in artifact.origin.items() if name != "name"}) != key:
        return Checked(key, stage, size, f"{artifact.path}: its manifest has changed")
    wrong = []
    for name, noted in artifact.files.items():
        with contextlib.suppress(OSError):  # an unreadable file counts as wrong
            if not noted or file_digest(artifact.path / name) == noted:
                continue
        wrong.append(name)
    problem = f"{artifact.path}: damaged: the bytes of {', '.join(wrong)} have changed" if wrong else ""
    return Checked(key, stage, size, problem, size_only=not all(artifact.files.values()))
