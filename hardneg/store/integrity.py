"""Checks that the artifacts of a store are as they were written, to the byte."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hardneg.records.errors import ArtifactError, ClosedArtifact, NewerArtifact
from hardneg.runtime.progress import Progress
from hardneg.store.artifacts import Store
from hardneg.store.digest import digest, file_digest


@dataclass(frozen=True)
class Checked:
    """The result of checking one artifact.

    key: its folder's name. stage: the stage that made it, where that can be read. problem: what is wrong, in one
    line; empty where nothing is. size_only: whether an earlier hardneg wrote no digests, so that sizes were compared.
    newer: whether a newer hardneg wrote it, so that nothing was.
    """

    key: str
    stage: str = "?"
    size: int = 0
    problem: str = ""
    size_only: bool = False
    newer: bool = False


def check(store: Store, progress: Progress) -> Iterator[Checked]:
    """Read every byte of every artifact of a store. Raises ArtifactError where none is there, but other files."""
    keys = [path.name for path in store.folders() if not path.suffix]
    with progress.task("checking", len(keys), "artifacts") as task:
        for key in keys:
            yield _checked(store, key)
            task.advance()


def damage(folder: Path) -> str:
    """Return what is wrong with the artifact in `folder`, in one line; empty where every byte is as it was written."""
    return _checked(Store(folder.parent), folder.name).problem


def _checked(store: Store, key: str) -> Checked:
    try:
        artifact = store.find(key)
    except NewerArtifact:
        return Checked(key, newer=True)
    except ClosedArtifact:
        raise
    except ArtifactError as error:
        return Checked(key, problem=str(error))
    if artifact is None:
        return Checked(key, problem=f"{store.path(key)}: is gone")
    stage = str(artifact.origin.get("name", "?"))
    size = sum((artifact.path / name).stat().st_size for name in artifact.files)
    if digest({name: value for name, value in artifact.origin.items() if name != "name"}) != key:
        return Checked(key, stage, size, f"{artifact.path}: its manifest is not the one that was written")
    wrong = []
    for name, noted in artifact.files.items():
        with suppress(OSError):  # one that cannot be read is wrong
            if not noted or file_digest(artifact.path / name) == noted:
                continue
        wrong.append(name)
    problem = f"{artifact.path}: damaged: {', '.join(wrong)}: the bytes have changed" if wrong else ""
    return Checked(key, stage, size, problem, size_only=not all(artifact.files.values()))
