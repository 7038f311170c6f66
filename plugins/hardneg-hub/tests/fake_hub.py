"""A hub in memory that this process asks."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import huggingface_hub
import pytest
from hub_server import TOKEN
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError


class FakeHub(huggingface_hub.HfApi):  # type: ignore[misc]
    """The hub's client, whose repositories are here: files by branch. refuse: by method, the status it answers with."""

    def __init__(self) -> None:
        super().__init__(endpoint="https://hub.test")
        self.files: dict[str, dict[str, dict[str, bytes]]] = {}
        self.private: dict[str, bool] = {}
        self.messages: list[str] = []
        self.refuse: dict[str, int] = {}
        self.asked: list[str] = []

    def _ask(self, method: str) -> None:
        self.asked.append(method)
        if status := self.refuse.get(method):
            raise HfHubHTTPError(TOKEN, response=response(status), server_message=f"no, {TOKEN}")

    def whoami(self, *_: Any, **__: Any) -> dict[str, str]:
        self._ask("whoami")
        return {"name": "me"}

    def repo_info(self, repo_id: str, *, repo_type: str, **_: Any) -> Any:
        self._ask("repo_info")
        if repo_id not in self.files:
            raise RepositoryNotFoundError("none", response=response(404))
        branch = self.files[repo_id]["main"]
        return SimpleNamespace(private=self.private[repo_id], sha=hashlib.sha1(repr(branch).encode()).hexdigest())

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool, **_: Any) -> None:
        self._ask("create_repo")
        self.files[repo_id], self.private[repo_id] = {"main": {}}, private

    def create_commit(self, repo_id: str, operations: Any, **given: Any) -> Any:
        self._ask("create_commit")
        branch = self.files[repo_id]["main"]
        known = self.repo_info(repo_id, repo_type=given["repo_type"])
        assert known.sha == given["parent_commit"]
        sent = {each.path_in_repo: each.path_or_fileobj for each in operations}
        sent = {path: each if isinstance(each, bytes) else Path(each).read_bytes() for path, each in sent.items()}
        if any(branch.get(path) != data for path, data in sent.items()):
            self.messages.append(given["commit_message"])
        branch |= sent
        sha = self.repo_info(repo_id, repo_type=given["repo_type"]).sha
        return SimpleNamespace(oid=sha)

    def update_repo_settings(self, repo_id: str, *, private: bool, repo_type: str, **_: Any) -> None:
        self._ask("update_repo_settings")
        self.private[repo_id] = private


def response(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("POST", "https://hub.test"))


def asking(patched: pytest.MonkeyPatch) -> FakeHub:
    """A hub that hardneg asks from now on."""
    made = FakeHub()
    patched.setenv("HF_TOKEN", TOKEN)
    patched.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    patched.setattr(huggingface_hub, "HfApi", lambda **_: made)
    return made
