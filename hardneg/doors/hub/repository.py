"""A repository on the hub: its files, the changes of a push, and the one commit."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hardneg.doors.hub.hub_errors import explained
from hardneg.doors.hub.upload import HubFile, Upload
from hardneg.records.errors import HubError, UsageError
from hardneg.records.types import HUB_ID

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN = "main"
_LONGEST = 96


@dataclass(frozen=True)
class Repository:
    """One repository, as it was found.

    name: `owner/name`. type: `model` or `dataset`. revision: the branch that is pushed to. commit: the one that the
    branch ends in; empty where there is no such repository. public: whether everybody reads it. missing_branch: the
    repository is there, the branch is not. files: by path, the git name of its bytes, or their SHA-256 if it is large.
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
    """The changes of a push: files that are new, changed, and the same.

    others: files there that this push has no part in; they stay.
    """

    new: tuple[HubFile, ...]
    changed: tuple[HubFile, ...]
    same: tuple[HubFile, ...]
    others: tuple[str, ...]

    @cached_property
    def sent(self) -> tuple[HubFile, ...]:
        """The files that are committed."""
        return (*self.new, *self.changed)


def look(name: str, repo_type: str, revision: str | None) -> Repository:
    """Look up a repository, under the user's own name by default.

    Raises:
        UsageError: no repository may have this name.
        HubError: nobody is logged in, or the hub gives no answer.
    """
    client, branch = _client(), revision or MAIN
    with explained(name):
        user = client.whoami()["name"]
        name = name if "/" in name else f"{user}/{name}"
        return _described(client, name, repo_type, branch)


def check_name(name: str, argument: str = "repo") -> None:
    """Raise UsageError for an invalid name of a repository, which this argument gives."""
    if not HUB_ID.fullmatch(name) or len(name) > _LONGEST or re.search(r"--|\.\.|\.git$|[-.](?:/|$)", name):
        rule = f"letters, digits, `-`, `_` and `.`, at most {_LONGEST}, such as org/name"
        raise UsageError(f"{{{argument}}} {name!r}: no repository may be called that: give {rule}", argument)


def _described(client: "HfApi", name: str, repo_type: str, branch: str) -> Repository:
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        info: Any = client.repo_info(name, repo_type=repo_type)
    except RepositoryNotFoundError:
        return Repository(name, repo_type, branch)
    public = not info.private
    try:
        at: Any = info if branch == MAIN else client.repo_info(name, repo_type=repo_type, revision=branch)
    except RevisionNotFoundError:
        at = None
    commit = str((at or info).sha)
    tree = client.list_repo_tree(name, repo_type=repo_type, revision=commit, recursive=True)
    entries = [entry for entry in tree if isinstance(entry, RepoFile)]
    files = {entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id for entry in entries}
    return Repository(name, repo_type, branch, commit, public, at is None, files)


def changes(upload: Upload, repository: Repository) -> Changes:
    """Compare an upload with the repository; reads the files that it has under the same paths."""
    there = repository.files
    new = tuple(file for file in upload.files if file.path not in there)
    known = [(file, there[file.path]) for file in upload.files if file.path in there]
    same = tuple(file for file, name in known if name == (file.sha256 if len(name) == 64 else file.blob))
    changed = tuple(file for file, _ in known if file not in same)
    own = {file.path for file in upload.files} | {".gitattributes"}
    return Changes(new, changed, same, tuple(path for path in there if path not in own))


def send(repository: Repository, planned: Changes, message: str, public: bool, bars: bool) -> str:
    """Makes the repository if need be, uploads, commits once; a public one is opened last. Returns the commit.

    What large files were sent before a push was stopped is not sent again. bars: the hub's client shows its own.

    Raises:
        HubError: the hub refuses, or gives no answer.
    """
    client = _client()
    with explained(repository.name), _quiet(bars):
        if not (parent := repository.commit):
            client.create_repo(repository.name, repo_type=repository.type, private=True, exist_ok=False)
            parent = str(client.repo_info(repository.name, repo_type=repository.type).sha)
        if repository.revision != MAIN and (repository.missing_branch or not repository.exists):
            client.create_branch(
                repository.name, branch=repository.revision, revision=parent, repo_type=repository.type, exist_ok=True
            )
        commit = parent
        if planned.sent:
            commit = _committed(client, repository, planned, message, parent)
        if public and not repository.public:
            client.update_repo_settings(repository.name, private=False, repo_type=repository.type)
        return commit


def _committed(client: "HfApi", repository: Repository, planned: Changes, message: str, parent: str) -> str:
    from huggingface_hub import CommitOperationAdd

    added = [CommitOperationAdd(file.path, file.source) for file in planned.sent]
    with _transfer(client, repository):
        commit: Any = client.create_commit(
            repository.name,
            added,
            commit_message=message,
            repo_type=repository.type,
            revision=repository.revision,
            parent_commit=parent,
        )
    return str(commit.oid)


@contextmanager
def _transfer(client: "HfApi", repository: Repository) -> Iterator[None]:
    """Send large files by Xet where the server has it, else by Git LFS.

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
    """Silence the hub's client: no warnings on data files in a model repository, and no bars by default."""
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
    """The hub's client, with the token of `hf auth login` or of the environment.

    Raises:
        HubError: offline mode is set, or there is no token.
    """
    from huggingface_hub import HfApi, constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise HubError("HF_HUB_OFFLINE is set: take it out of the environment to push")
    if not get_token():
        raise HubError("nobody is logged in to the hub: `hf auth login`, or set HF_TOKEN")
    return HfApi(library_name="hardneg")
