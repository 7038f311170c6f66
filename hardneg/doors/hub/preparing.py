"""Prepare the upload of a folder: of a finished recipe, of an artifact of the store, or of neither."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from hardneg.doors.hub.index_upload import index_upload, is_index, run_index_upload
from hardneg.doors.hub.model_upload import model_upload, run_model_upload
from hardneg.doors.hub.negatives_upload import Rows, negatives_upload, run_negatives_upload
from hardneg.doors.hub.privacy import check, private_texts
from hardneg.doors.hub.pushed_folder import PushedFolder
from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.hub.repository import check_name
from hardneg.doors.hub.runs_upload import runs_upload
from hardneg.doors.hub.upload import Upload
from hardneg.records.errors import DataError, UsageError
from hardneg.records.layout import INDEX_FOLDER, LOCK, MODEL_FOLDER, NEGATIVES
from hardneg.store.artifacts import MANIFEST, Store

UPLOADS = ("model", "index", "negatives", "runs")
_RUNS = "runs"
_TABLES = (".arrow", ".parquet")


@dataclass(frozen=True)
class Wanted:
    """The requested upload. what: one of `UPLOADS`, None for the usual; encoder: of an index, its model's repository.

    rows: of negatives, how they are written.
    """

    what: str | None = None
    encoder: str = ""
    rows: Rows = field(default_factory=Rows)

    def __post_init__(self) -> None:
        if self.what is not None and self.what not in UPLOADS:
            raise UsageError(f"{{wanted}} {self.what!r}: is one of {', '.join(UPLOADS)}", "wanted")
        if self.encoder:
            check_name(self.encoder, "encoder")


def prepare(folder: Path, repo: str, wanted: Wanted, store: Store, scratch: Path) -> Upload:
    """Prepare an upload without asking the hub. Tables are written into the folder `scratch`.

    Raises:
        UsageError: there is nothing of the kind there.
        DataError: a file holds something private, or a link leads out of the folder.
        ArtifactError: a file has changed since it was written.
        ModelError: a model is none that can go.
    """
    check_name(repo)
    folder = folder.expanduser().absolute()
    run = _run(folder, wanted, store)
    upload = _of_run(*run, repo, scratch) if run else _alone(folder, repo, wanted, scratch)
    check(upload.files, private_texts([folder, store.root, scratch]))
    return upload


def _run(folder: Path, wanted: Wanted, store: Store) -> tuple[RecordedRun, Wanted] | None:
    """The run folder that a folder is, or that it is the model or the index of."""
    if (folder / LOCK).is_file():
        return RecordedRun.open(folder, store), wanted
    upload_type = {MODEL_FOLDER: "model", INDEX_FOLDER: "index"}.get(folder.name)
    if upload_type and wanted.what in (None, upload_type) and (folder.parent / LOCK).is_file():
        return RecordedRun.open(folder.parent, store), replace(wanted, what=upload_type)
    if not (folder / MANIFEST).is_file() and any(
        (folder / name).is_dir() for name in (MODEL_FOLDER, INDEX_FOLDER, _RUNS)
    ):
        raise DataError(
            f"{folder}: no finished run: {LOCK} is missing; run the recipe again, or push its model or index"
        )
    return None


def _of_run(run: RecordedRun, wanted: Wanted, repo: str, scratch: Path) -> Upload:
    if wanted.what == "index":
        return run_index_upload(run, repo, wanted.encoder)
    if wanted.what == "negatives":
        return run_negatives_upload(run, repo, wanted.rows, scratch)
    if wanted.what == "runs":
        return runs_upload(run, repo)
    return run_model_upload(run, repo)


def _alone(path: Path, repo: str, wanted: Wanted, scratch: Path) -> Upload:
    if not path.exists():
        raise UsageError(f"{path}: is not there; give the folder of a finished recipe")
    pushed = PushedFolder.at(path)
    upload_type = _upload_type(pushed.folder)
    if upload_type is None or wanted.what not in (None, upload_type):
        lacking = wanted.what or "run folder, and no model, index or negatives"
        raise UsageError(
            f"{path}: no {lacking} there: give the folder of a finished recipe, or that of the pushed itself"
        )
    if upload_type == "index":
        return index_upload(pushed, repo, wanted.encoder)
    if upload_type == "negatives":
        return negatives_upload(pushed, repo, wanted.rows, scratch)
    return model_upload(pushed, repo)


def _upload_type(path: Path) -> str | None:
    """The type of upload of a file or a folder, by its names."""
    if path.is_file():
        return "negatives" if path.suffix in _TABLES else None
    if any((path / name).is_file() for name in ("modules.json", "config.json")):
        return "model"
    if is_index(path):
        return "index"
    return "negatives" if (path / NEGATIVES).is_file() or any(path.glob("*.parquet")) else None
