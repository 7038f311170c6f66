"""Puts a model, an index, negatives or runs on the Hugging Face hub: prepared, looked at, then sent as one commit."""

from dataclasses import dataclass
from pathlib import Path

from hardneg.artifacts import Store
from hardneg.errors import UsageError
from hardneg.hub.model import model_upload, run_model_upload
from hardneg.hub.privacy import check, private_texts
from hardneg.hub.recorded import RecordedRun
from hardneg.hub.repository import Changes, Repository, changes, check_name, look, send
from hardneg.hub.upload import Upload
from hardneg.layout import LOCK

KINDS = ("model", "index", "negatives", "runs")


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


def prepare(folder: Path, repo: str, what: str | None, store: Store) -> Upload:
    """What would be sent; asks nothing of the hub.

    Raises:
        UsageError: there is nothing of the kind there.
        DataError: a file holds something private, or a link leads out of the folder.
        ArtifactError: a file is not as it was made.
        ModelError: a model is none that can go.
    """
    check_name(repo)
    if what is not None and what not in KINDS:
        raise UsageError(f"--what {what!r}: is one of {', '.join(KINDS)}")
    upload = _upload(folder, repo, what, store)
    check(upload.files, private_texts([folder, store.root]))
    return upload


def _upload(folder: Path, repo: str, what: str | None, store: Store) -> Upload:
    if (folder / LOCK).is_file():
        return run_model_upload(RecordedRun.open(folder), repo, store)
    return model_upload(folder, repo)


def planned(upload: Upload, repo: str, public: bool, revision: str | None, message: str = "") -> Push:
    """The push of what was prepared, beside what the hub has.

    Raises:
        HubError: nobody is logged in, or the hub gives no answer.
    """
    there = look(repo, upload.repo_type, revision)
    return Push(upload, there, changes(upload, there), public, message)
