"""Puts a model, an index, negatives or runs on the Hugging Face hub: prepared, looked at, then sent as one commit."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from hardneg.api.workplace import usual_store
from hardneg.doors.hub.preparing import Wanted, prepare
from hardneg.doors.hub.repository import Changes, Repository, changes, look, send
from hardneg.doors.hub.upload import Upload
from hardneg.records.errors import UsageError


def push(
    what: str | PathLike[str],
    repo: str,
    wanted: Wanted | str | None = None,
    *,
    public: bool = False,
    message: str = "",
    store: str | Path | None = None,
) -> "Pushed":
    """Uploads a model, an index, negatives or runs to the Hugging Face hub as one commit, with a card.

    Nothing private goes along: what would be is refused. The token is that of `hf auth login`, or `HF_TOKEN`.

    Args:
        what: a run folder, that of a model, an index or negatives, or a function's result.
        repo: the repository, such as org/name.
        wanted: of a run folder `"model"`, `"index"`, `"negatives"` or `"runs"`; by default its model.
        public: everybody may read it. A repository that is public already needs it too.
        message: of the commit.
        store: the artifact store; default $HARDNEG_STORE, else ~/.cache/hardneg/store.

    Raises:
        UsageError: there is nothing of that type, or the repository is public and `public` is not set.
        DataError, ArtifactError, ModelError: a file is private, has changed, or cannot go.
        HubError: nobody is logged in, or the hub refuses.
    """
    chosen = wanted if isinstance(wanted, Wanted) else Wanted(wanted)
    with TemporaryDirectory() as scratch:
        upload = prepare(Path(what), repo, chosen, usual_store(store), Path(scratch))
        planned_push = planned(upload, repo, public, None, message)
        if planned_push.opens and not public and not planned_push.idle:
            raise UsageError(
                f"{planned_push.repository.name} is public: everybody reads what is pushed; set public=True"
            )
        return planned_push.send()


@dataclass(frozen=True)
class Pushed:
    """The result of a push.

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

    public: everybody is to read the repository, now or already. message: of the commit; by default by upload type.
    """

    upload: Upload
    repository: Repository
    changes: Changes
    public: bool = False
    message: str = ""

    @property
    def opens(self) -> bool:
        """Whether everybody can read the pushed files."""
        return self.public or self.repository.public

    @property
    def idle(self) -> bool:
        """Whether the repository is as it would be."""
        return not self.changes.sent and (self.repository.public or not self.public)

    def send(self, bars: bool = False) -> Pushed:
        """Sends it; bars: on stderr, by the hub's client.

        Raises:
            HubError: the hub refuses, or gives no answer; the repository is as it was.
        """
        there = self.repository
        if self.idle:
            return Pushed(there.address, there.commit, 0)
        message = self.message or f"{self.upload.upload_type.capitalize()} pushed with hardneg"
        commit = send(there, self.changes, message, self.public, bars)
        return Pushed(there.address, commit, len(self.changes.sent), self.public and not there.public)


def planned(upload: Upload, repo: str, public: bool, revision: str | None, message: str = "") -> Push:
    """Plan the push of a prepared upload against the repository.

    Raises:
        HubError: nobody is logged in, or the hub gives no answer.
    """
    there = look(repo, upload.repo_type, revision)
    return Push(upload, there, changes(upload, there), public, message)
