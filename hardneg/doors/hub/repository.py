"""A repository on the hub: what is there, what a push would change, and the one commit that changes it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hardneg.doors.hub.hub_errors import explained
from hardneg.doors.hub.upload import HubFile, Upload
from hardneg.encoders.open.source import HUB_ID
from hardneg.records.errors import HubError, UsageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN = "main"
_LONGEST = 96


@dataclass(frozen=True)
class Repository:
    """One repository, as it was found.

    name: `owner/name`. type: `model` or `dataset`. revision: the branch that is pushed to. commit: the one that the
    branch ends in; empty where there is no such repository. public: whether everybody reads it. missing_branch: the
    repository is there, the branch is not. files: by place, the git name of its bytes, or their SHA-256 if it is large.
    """

    name: str
    type: str
    revision: str = MAIN
    commit: str = ""
    public: bool = False
    missing_branch: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self.commit)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        from huggingface_hub import constants

        return f"{constants.ENDPOINT}/{'datasets/' if self.type == 'dataset' else ''}{self.name}"


@dataclass(frozen=True)
class Changes:
    """What a push does to a repository: places of files that are new, other than there, and as they are there.

    others: files there that this push has no part in; they stay.
    """

    new: tuple[HubFile, ...]
    changed: tuple[HubFile, ...]
    same: tuple[HubFile, ...]
    others: tuple[str, ...]

    @cached_property
    def sent(self) -> tuple[HubFile, ...]:
        """What is committed."""
        return (*self.new, *self.changed)


def look(name: str, kind: str, revision: str | None) -> Repository:
    """Finds a repository, under the user's own name where none is given.

    Raises:
        UsageError: no repository may have this name.
        HubError: nobody is logged in, or the hub gives no answer.
    """
    client, branch = _client(), revision or MAIN
    with explained(name):
        user = client.whoami()["name"]
        name = name if "/" in name else f"{user}/{name}"
        return _found(client, name, kind, branch)


def check_name(name: str, option: str = "--repo") -> None:
    """Refuses what cannot be a repository's name. Raises UsageError."""
    if not HUB_ID.fullmatch(name) or len(name) > _LONGEST or re.search(r"--|\.\.|\.git$|[-.](?:/|$)", name):
        told = f"letters, digits, `-`, `_` and `.`, at most {_LONGEST}, such as org/name"
        raise UsageError(f"{option} {name!r}: no repository may be called that: give {told}")


def _found(client: "HfApi", name: str, kind: str, branch: str) -> Repository:
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        info: Any = client.repo_info(name, repo_type=kind)
    except RepositoryNotFoundError:
        return Repository(name, kind, branch)
    public = not info.private
    try:
        at: Any = info if branch == MAIN else client.repo_info(name, repo_type=kind, revision=branch)
    except RevisionNotFoundError:
        at = None
    commit = str((at or info).sha)
    files = dict(_tree(client, name, kind, commit))
    return Repository(name, kind, branch, commit, public, at is None, files)


def _tree(client: "HfApi", name: str, kind: str, commit: str) -> Iterator[tuple[str, str]]:
    from huggingface_hub.hf_api import RepoFile

    for entry in client.list_repo_tree(name, repo_type=kind, revision=commit, recursive=True):
        if isinstance(entry, RepoFile):
            yield entry.path, entry.lfs.sha256 if entry.lfs else entry.blob_id


def changes(upload: Upload, repository: Repository) -> Changes:
    """What would be committed; reads the files that the repository has under the same places."""
    there = repository.files
    new = tuple(file for file in upload.files if file.place not in there)
    known = [file for file in upload.files if file.place in there]
    same = tuple(file for file in known if there[file.place] == _name_of(file, there[file.place]))
    changed = tuple(file for file in known if file not in same)
    own = {file.place for file in upload.files} | {".gitattributes"}
    return Changes(new, changed, same, tuple(place for place in there if place not in own))


def _name_of(file: HubFile, there: str) -> str:
    """The name of a file's bytes of the same kind as the one that the hub has."""
    return file.sha256 if len(there) == 64 else file.blob


def send(repository: Repository, found: Changes, message: str, public: bool, bars: bool) -> str:
    """Makes the repository if need be, uploads, commits once; a public one is opened last. Returns the commit.

    What large files were sent before a push was stopped is not sent again. bars: the hub's client shows its own.

    Raises:
        HubError: the hub refuses, or gives no answer.
    """
    client = _client()
    with explained(repository.name), _quiet(bars):
        parent = repository.commit or _made(client, repository)
        if repository.revision != MAIN and (repository.missing_branch or not repository.exists):
            client.create_branch(
                repository.name, branch=repository.revision, revision=parent, repo_type=repository.type, exist_ok=True
            )
        commit = parent
        if found.sent:
            commit = _committed(client, repository, found, message, parent)
        if public and not repository.public:
            client.update_repo_settings(repository.name, private=False, repo_type=repository.type)
        return commit


def _made(client: "HfApi", repository: Repository) -> str:
    """Makes it, for nobody else to see, and gives the commit that it begins with."""
    client.create_repo(repository.name, repo_type=repository.type, private=True, exist_ok=False)
    return str(client.repo_info(repository.name, repo_type=repository.type).sha)


def _committed(client: "HfApi", repository: Repository, found: Changes, message: str, parent: str) -> str:
    from huggingface_hub import CommitOperationAdd

    added = [CommitOperationAdd(file.place, file.source) for file in found.sent]
    with _transfer(client, repository):
        made: Any = client.create_commit(
            repository.name,
            added,
            commit_message=message,
            repo_type=repository.type,
            revision=repository.revision,
            parent_commit=parent,
        )
    return str(made.oid)


@contextmanager
def _transfer(client: "HfApi", repository: Repository) -> Iterator[None]:
    """Large files go by Xet where the server has it, and by Git LFS where it says that it has not.

    huggingface_hub takes Xet wherever hf_xet is installed, without asking; servers of one's own may have LFS alone.
    """
    from huggingface_hub import constants, get_session

    before = constants.HF_HUB_DISABLE_XET
    token = f"{client.endpoint}/api/{repository.type}s/{repository.name}/xet-write-token/{MAIN}"
    if not before:
        answer = get_session().get(token, headers=client._build_hf_headers())
        constants.HF_HUB_DISABLE_XET = answer.status_code in (404, 501)
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before


@contextmanager
def _quiet(bars: bool) -> Iterator[None]:
    """The hub's client says nothing of files of data in a repository of a model, and shows no bars unless asked."""
    import warnings

    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    hide = not bars and not are_progress_bars_disabled()
    if hide:
        disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if hide:
            enable_progress_bars()


def _client() -> "HfApi":
    """The hub's client, with the token that `hf auth login` or the environment gives.

    Raises:
        HubError: offline mode is set, or there is no token.
    """
    from huggingface_hub import HfApi, constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise HubError("HF_HUB_OFFLINE is set: take it out of the environment to push")
    if not get_token():
        raise HubError("nobody is logged in to the hub: `hf auth login`, or set HF_TOKEN")
    return HfApi(library_name="hardneg")
