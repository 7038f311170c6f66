"""Puts a model, an index, negatives or runs on the Hugging Face hub: prepared, looked at, then sent as one commit."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from hardneg.artifacts import MANIFEST, Store
from hardneg.errors import UsageError
from hardneg.hub.index import index_upload, is_index, run_index_upload
from hardneg.hub.model import model_upload, run_model_upload
from hardneg.hub.negatives import Rows, negatives_upload, run_negatives_upload
from hardneg.hub.privacy import check, private_texts
from hardneg.hub.recorded import RecordedRun
from hardneg.hub.repository import Changes, Repository, changes, check_name, look, send
from hardneg.hub.runs import runs_upload
from hardneg.hub.upload import Upload
from hardneg.layout import INDEX_FOLDER, LOCK, MODEL_FOLDER, NEGATIVES

KINDS = ("model", "index", "negatives", "runs")
_TABLES = (".arrow", ".parquet")


@dataclass(frozen=True)
class Chosen:
    """What of a folder goes. what: one of `KINDS`, None for the usual; encoder: of an index, its model's repository.

    rows: of negatives, how they are written.
    """

    what: str | None = None
    encoder: str = ""
    rows: Rows = field(default_factory=Rows)

    def __post_init__(self) -> None:
        if self.what is not None and self.what not in KINDS:
            raise UsageError(f"--what {self.what!r}: is one of {', '.join(KINDS)}")
        if self.encoder:
            check_name(self.encoder, "--model")


@dataclass(frozen=True)
class Pushed:
    """What a push came to.

    address: the repository's page. commit: the last one. files: how many were sent, maybe 0. opened: whether the
    repository was made public.
    """

    address: str
    commit: str
    files: int
    opened: bool = False


@dataclass(frozen=True)
class Push:
    """One push, ready to be shown and sent.

    public: everybody is to read the repository, now or already. message: of the commit; by default it tells the kind.
    """

    upload: Upload
    repository: Repository
    changes: Changes
    public: bool = False
    message: str = ""

    @property
    def opens(self) -> bool:
        """Whether everybody reads what is pushed."""
        return self.public or self.repository.public

    @property
    def idle(self) -> bool:
        """Whether the repository is as it would be."""
        return not self.changes.sent and (self.repository.public or not self.public)

    def send(self) -> Pushed:
        """Sends it.

        Raises:
            HubError: the hub refuses, or gives no answer; the repository is as it was.
        """
        there = self.repository
        if self.idle:
            return Pushed(there.address, there.commit, 0)
        message = self.message or f"{self.upload.kind.capitalize()} pushed with hardneg"
        commit = send(there, self.changes, message, self.public)
        return Pushed(there.address, commit, len(self.changes.sent), self.public and not there.public)


def prepare(folder: Path, repo: str, chosen: Chosen, store: Store, scratch: Path) -> Upload:
    """What would be sent; asks nothing of the hub. Tables are written into the folder `scratch`.

    Raises:
        UsageError: there is nothing of the kind there.
        DataError: a file holds something private, or a link leads out of the folder.
        ArtifactError: a file is not as it was made.
        ModelError: a model is none that can go.
    """
    check_name(repo)
    upload = _upload(folder, repo, chosen, store, scratch)
    check(upload.files, private_texts([folder, store.root, scratch]))
    return upload


def _upload(folder: Path, repo: str, chosen: Chosen, store: Store, scratch: Path) -> Upload:
    part = folder.name if folder.name in (MODEL_FOLDER, INDEX_FOLDER) else None
    if (folder / LOCK).is_file():
        return _of_run(RecordedRun.open(folder), repo, chosen, store, scratch)
    if part and (folder.parent / LOCK).is_file() and chosen.what in (None, part):
        return _of_run(RecordedRun.open(folder.parent), repo, replace(chosen, what=part), store, scratch)
    kind = _kind(folder)
    if kind is None or chosen.what not in (None, kind):
        wanted = chosen.what or "run folder, and no model, index or negatives"
        raise UsageError(
            f"{folder}: no {wanted} there: give the folder of a finished recipe, or that of the thing itself"
        )
    if kind == "index":
        return index_upload(_made(folder), repo, chosen.encoder)
    if kind == "negatives":
        return negatives_upload(folder, repo, chosen.rows, scratch)
    return model_upload(_made(folder), repo)


def _of_run(run: RecordedRun, repo: str, chosen: Chosen, store: Store, scratch: Path) -> Upload:
    if chosen.what == "index":
        return run_index_upload(run, repo, store, chosen.encoder)
    if chosen.what == "negatives":
        return run_negatives_upload(run, repo, store, chosen.rows, scratch)
    if chosen.what == "runs":
        return runs_upload(run, repo, store)
    return run_model_upload(run, repo, store)


def _kind(folder: Path) -> str | None:
    """What a file or a folder is, by its names."""
    if folder.is_file():
        return "negatives" if folder.suffix in _TABLES else None
    place = _made(folder)
    if any((place / name).is_file() for name in ("modules.json", "config.json")):
        return "model"
    if is_index(place):
        return "index"
    return "negatives" if (folder / NEGATIVES).is_file() or any(folder.glob("*.parquet")) else None


def _made(folder: Path) -> Path:
    """The folder itself, or that in an artifact of the store which has the model or the index."""
    parts = [folder / name for name in (MODEL_FOLDER, INDEX_FOLDER) if (folder / MANIFEST).is_file()]
    return next((part for part in parts if part.is_dir()), folder)


def planned(upload: Upload, repo: str, public: bool, revision: str | None, message: str = "") -> Push:
    """The push of what was prepared, beside what the hub has.

    Raises:
        HubError: nobody is logged in, or the hub gives no answer.
    """
    there = look(repo, upload.repo_type, revision)
    return Push(upload, there, changes(upload, there), public, message)
