"""The files of a folder that may be pushed: those of a manifest, of a model or of an index; none that runs code.

A model's files are safetensors, JSON and words. Pickles may hold code, so they stay here.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from hardneg.doors.hub.upload import CARD, HubFile
from hardneg.encoders.open.model_files import module_folders
from hardneg.encoders.open.source import HUB_FILES
from hardneg.records.errors import ArtifactError, DataError, ModelError
from hardneg.records.layout import LOCK
from hardneg.store.artifacts import MANIFEST, Artifact
from hardneg.store.digest import file_digest

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
_SAFE = ".safetensors"


def model_files(folder: Path, notes: list[str]) -> list[HubFile]:
    """The files of a model's own folders, its card aside; `notes` gets those that stay here.

    Raises:
        ModelError: there are no weights but in a pickle.
        DataError: a link leads out of the folder.
    """
    folders = {folder, *module_folders(folder)}
    paths = [path for path in _files(folder) if path.parent in folders]
    safe = {path.parent for path in paths if path.suffix == _SAFE}
    for path in paths:
        if path.suffix in PICKLES and path.parent not in safe:
            raise ModelError(f"{path}: is a pickle, which may hold code: save the model with safetensors, then push it")
    taken = [path for path in paths if any(fnmatch(path.name, pattern) for pattern in HUB_FILES)]
    if not any(path.suffix == _SAFE for path in taken):
        raise ModelError(f"{folder}: no weights in safetensors there: give the folder of a model")
    return _taken(folder, taken, notes)


def listed_files(
    folder: Path, artifact: Artifact, part: str, notes: list[str], changed: Iterable[str]
) -> list[HubFile]:
    """The files of a folder in an artifact's manifest, each unchanged; `notes` gets those that stay here.

    part: the folder of the artifact that this one is. changed: names that may differ from it.

    Raises:
        ArtifactError: one is missing, or has changed.
        DataError: a link leads out of the folder.
    """
    prefix = "" if part == "." else f"{part}/"
    own = {name.removeprefix(prefix): noted for name, noted in artifact.files.items() if name.startswith(prefix)}
    compare(folder, own, changed)
    pickles = [name for name in own if Path(name).suffix in PICKLES]
    if pickles:
        raise DataError(f"{folder / pickles[0]}: is a pickle, which may hold code: it is not pushed")
    return _taken(folder, [folder / name for name in own if name != CARD], notes)


def check_listed(artifact: Artifact) -> None:
    """Compares every file of an artifact with its manifest. Raises ArtifactError where one has changed."""
    compare(artifact.path, artifact.files)


def some_files(folder: Path, patterns: Iterable[str], notes: list[str]) -> list[HubFile]:
    """The files of a folder whose paths match the patterns; `notes` gets those that stay here.

    Raises:
        DataError: a link leads out of the folder.
    """
    paths = [path for path in _files(folder) if path.suffix not in PICKLES]
    wanted = [path for path in paths if any(fnmatch(path.relative_to(folder).as_posix(), item) for item in patterns)]
    return _taken(folder, wanted, notes)


def compare(folder: Path, own: Mapping[str, str], changed: Iterable[str] = ()) -> None:
    """Compare files with their digests in a manifest. Raises ArtifactError where one is missing or has changed."""
    for name, noted in own.items():
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder / name}: damaged: is missing: run the recipe again")
        if noted and name not in changed and file_digest(folder / name) != noted:
            raise ArtifactError(f"{folder / name}: has changed since it was written: run the recipe again")


def _taken(folder: Path, taken: list[Path], notes: list[str]) -> list[HubFile]:
    own = {folder / MANIFEST, folder / LOCK, folder / CARD}
    stray = [path.relative_to(folder).as_posix() for path in _files(folder) if path not in {*taken, *own}]
    if stray:
        more = f" and {len(stray) - 5} more" if len(stray) > 5 else ""
        notes.append(f"stays here, no part of it: {', '.join(stray[:5])}{more}")
    return [
        HubFile(path.relative_to(folder).as_posix(), _inside(path, folder)) for path in sorted(taken) if path not in own
    ]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink())


def _inside(path: Path, folder: Path) -> Path:
    """The file itself. Raises DataError where a link leads out of the folder, or nowhere."""
    target = path.resolve()
    if not target.is_file() or not target.is_relative_to(folder.resolve()):
        raise DataError(f"{path}: a link that leads out of {folder}: put the file itself there, then push again")
    return target
