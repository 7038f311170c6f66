"""Push a model, an index or negatives to the Hugging Face hub as one commit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardneg.plugin import errors, sessions
from hardneg_hub.prepare import prepare
from hardneg_hub.upload import TOKEN, Upload

_ADVICE = {
    401: "rejects the token; run `hf auth login`, or set HF_TOKEN to a valid one",
    403: "does not let this token write there; use a token with the role `write`, and your own name or organisation",
    404: "has no such repository, or hides it from this token; check {repo}",
    412: "has received a new commit since this push started; check it, then push again",
}


def push(
    what: str | PathLike[str],
    repo: str,
    wanted: str | None = None,
    *,
    public: bool = False,
    message: str = "",
    store: str | Path | None = None,
) -> "Pushed":
    """Upload a model, an index or negatives to the Hugging Face hub as one commit, with a card.

    Private content is refused. The token comes from `hf auth login` or `HF_TOKEN`.

    Args:
        what: a run folder, a folder of a model, an index or negatives, or the result of a hardneg function.
        repo: the repository, such as org/name.
        wanted: what to push from a run folder: `"model"`, `"index"` or `"negatives"`; by default the model.
        public: whether everyone may read the repository; required for a repository that is already public.
        message: the commit message.
        store: the artifact store; default $HARDNEG_STORE, else ~/.cache/hardneg/store.

    Raises:
        UsageError: there is nothing of that type, or the repository is public and `public` is not set.
        DataError, ArtifactError, ModelError: a file is private, has changed, or cannot be uploaded.
        HubError: there is no login, or the hub refuses.
    """
    with TemporaryDirectory() as scratch:
        upload = prepare(Path(what), repo, sessions.usual_store(store), Path(scratch), wanted)
        ready = Push.planned(upload, repo, public, message)
        if ready.opens and not public:
            raise errors.UsageError(f"{ready.name} is public, so the pushed files will be public; set public=True")
        return ready.send()


@dataclass(frozen=True)
class Pushed:
    """The result of a push.

    address: the repository's page. commit: the latest commit's id. files: number of pushed files, 0 if nothing changed.
    opened: whether the repository was made public.
    """

    address: str
    commit: str
    files: int
    opened: bool = False


@dataclass(frozen=True)
class Push:
    """A push, ready to show and send.

    name: `owner/name`. there: whether the repository is public, None if it is new. public: whether it
    will be public. message: the commit message; the default depends on the type.
    """

    upload: Upload
    name: str
    there: bool | None
    public: bool = False
    message: str = ""

    @classmethod
    def planned(cls, upload: Upload, repo: str, public: bool = False, message: str = "") -> "Push":
        """Look up a repository and return a push of `upload` to it. If `repo` names no owner, the user is the owner.

        Raises HubError if the user is not logged in or the hub does not answer.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        client, there = _client(), None
        with _explained(repo):
            name = repo if "/" in repo else f"{client.whoami()['name']}/{repo}"
            with suppress(RepositoryNotFoundError):
                there = not client.repo_info(name, repo_type=upload.repo_type).private
        return cls(upload, name, there, public, message)

    @property
    def opens(self) -> bool:
        """Whether the pushed files will be public."""
        return self.public or bool(self.there)

    def send(self) -> Pushed:
        """Create the repository if needed, commit changed files and, if requested, make the repository public last.

        Raises HubError if the hub refuses or does not answer; the next push skips files already sent.
        """
        from huggingface_hub import CommitOperationAdd

        client, where = _client(), {"repo_id": self.name, "repo_type": self.upload.repo_type}
        message = self.message or f"{self.upload.upload_type.capitalize()} pushed with hardneg"
        added = [CommitOperationAdd(path, source) for path, source in self.upload.files.items()]
        opened = self.public and not self.there
        with _explained(self.name):
            if self.there is None:
                client.create_repo(**where, private=True)
            before: Any = client.repo_info(**where).sha
            done: Any = client.create_commit(**where, operations=added, commit_message=message, parent_commit=before)
            if opened:
                client.update_repo_settings(**where, private=False)
        kind = "datasets/" if self.upload.repo_type == "dataset" else ""
        files = 0 if done.oid == before else len(added)
        return Pushed(f"{client.endpoint}/{kind}{self.name}", done.oid, files, opened)


def _client() -> Any:
    """Return the hub client, with the token from `hf auth login` or the environment.

    Raises HubError in offline mode or without a token.
    """
    from huggingface_hub import HfApi, constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise errors.HubError("HF_HUB_OFFLINE is set; unset it to push")
    if not get_token():
        raise errors.HubError("not logged in to the hub; run `hf auth login`, or set HF_TOKEN")
    return HfApi(library_name="hardneg")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn errors of the hub client into one line without the token.

    Raises HubError if the hub refuses, is unreachable, or sends an invalid answer.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except HfHubHTTPError as error:
        status, said = error.response.status_code, _without_token(error.server_message or "")
        advice = _ADVICE.get(status, "is not available; try again later" if status >= 500 else "refuses the request")
        raise errors.HubError(f"{name}: the hub {advice} ({status}{f': {said}' if said else ''})", "repo") from None
    except Exception as error:  # the hub's client lets errors of several libraries through
        told = f"{type(error).__name__}: {_without_token(str(error))}"
        if isinstance(error, OSError) or "connect" in told.lower():
            told = f"{constants.ENDPOINT} cannot be reached ({told}); check the network"
        raise errors.HubError(f"{name}: {told}; push again to resume, as files already sent are kept", "repo") from None


def _without_token(text: str) -> str:
    """Return the start of a text on one line, with each token replaced by `[token]`."""
    from huggingface_hub import get_token

    text = re.sub(TOKEN.pattern.decode(), "[token]", text.replace(get_token() or "\0", "[token]"))
    return " ".join(text.split())[:200]
