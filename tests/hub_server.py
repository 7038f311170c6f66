"""A server of this machine that answers as the Hugging Face hub does, for tests of what is asked of it.

Metadata of repositories, listings of trees, and files with HEAD, ETag and ranges; gated and missing repositories, and
private ones, which are shown to who has the token. Nothing can be sent to it. A client is pointed at it by
`HF_ENDPOINT`, which huggingface_hub reads as it is imported: hence a process of its own.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Files = Mapping[str, bytes]
TOKEN = "hf_madeUpTokenOfTheTestsAbcdefghij"
_LARGE = (".bin", ".safetensors", ".parquet", ".gz", "index")
_ERRORS = {
    "RepoNotFound": (404, "Repository not found"),
    "RevisionNotFound": (404, "Invalid rev id"),
    "EntryNotFound": (404, "Entry not found"),
    "GatedRepo": (403, "Access to this repository is restricted: ask for it on its page."),
}


@dataclass(frozen=True)
class Repository:
    """Files by branch; `commits` names a branch's commit where a test pins one. `gated` lets metadata be read alone."""

    branches: Mapping[str, Files]
    commits: Mapping[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    def commit(self, branch: str) -> str:
        names = "".join(f"{path}{hashlib.sha1(data).hexdigest()}" for path, data in self.branches[branch].items())
        return self.commits.get(branch) or hashlib.sha1(names.encode()).hexdigest()

    def branch(self, revision: str) -> str | None:
        return next((name for name in self.branches if revision in (name, self.commit(name))), None)


@dataclass
class Hub:
    """Repositories by `models/ID` and `datasets/ID`; `asked` is what clients asked for, in order."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    def model(self, name: str, files: Files | Path, **options: Any) -> None:
        self.repositories[f"models/{name}"] = Repository({"main": _files(files)}, **options)

    def dataset(self, name: str, files: Files, **options: Any) -> None:
        self.repositories[f"datasets/{name}"] = Repository({"main": files}, **options)

    def fetched(self) -> list[str]:
        """The paths of files whose content was asked for."""
        return [path for verb, path in self.asked if verb == "GET" and "/resolve/" in path]

    def environment(self, cache: Path) -> dict[str, str]:
        """What a process needs that is to ask this hub, with caches of its own."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_OFFLINE"))}
        folders = {"HF_HOME": str(cache / "hf"), "XDG_CACHE_HOME": str(cache), "HARDNEG_STORE": str(cache / "store")}
        switches = dict.fromkeys(("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "OMP_NUM_THREADS"), "1")
        return own | folders | switches | {"HF_ENDPOINT": self.address, "NO_PROXY": "127.0.0.1"}


@contextmanager
def hub_server() -> Iterator[Hub]:
    """A hub without repositories, at its `address` as long as the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (_Answers,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes = b"") -> None:
        address = urlsplit(self.path)
        self.hub.asked.append((self.command, unquote(address.path)))
        parts = [unquote(part) for part in address.path.strip("/").split("/")]
        if parts[:1] == ["api"] and parts[1:2] in (["models"], ["datasets"]):
            self._api(parts[1], parts[2:], parse_qs(body.decode("utf-8", "replace")))
        elif "resolve" in parts:
            self._resolve(parts)
        else:
            self._error("EntryNotFound")

    def _found(self, kind: str, parts: list[str]) -> tuple[str, Repository | None, list[str]]:
        for length in (2, 1):
            name = "/".join(parts[:length])
            if (repository := self.hub.repositories.get(f"{kind}/{name}")) and self._shown(repository):
                return name, repository, parts[length:]
        return "/".join(parts[:2]), None, parts[2:]

    def _shown(self, repository: Repository) -> bool:
        return not repository.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _api(self, kind: str, parts: list[str], form: dict[str, list[str]]) -> None:
        name, repository, rest = self._found(kind, parts)
        if repository is None:
            return self._error("RepoNotFound", 401)
        verb, revision = [*rest, "", ""][:2]
        branch = repository.branch(revision or "main")
        if branch is None:
            return self._error("RevisionNotFound")
        files = repository.branches[branch]
        if verb in ("", "revision"):
            self._json(_information(name, repository, branch))
        elif verb == "tree":
            self._json(_tree(files, "/".join(rest[2:])))
        elif verb == "paths-info":
            self._json([entry for path in form.get("paths", []) for entry in _entries(files, path)])
        else:
            self._error("EntryNotFound")

    def _resolve(self, parts: list[str]) -> None:
        kind = "datasets" if parts[0] == "datasets" else "models"
        _, repository, rest = self._found(kind, parts[1:] if kind == "datasets" else parts)
        if repository is None:
            return self._error("RepoNotFound", 401)
        branch = repository.branch(rest[1])
        if branch is None:
            return self._error("RevisionNotFound")
        if repository.gated:
            return self._error("GatedRepo")
        data = repository.branches[branch].get("/".join(rest[2:]))
        if data is None:
            return self._error("EntryNotFound")
        self._file(data, repository.commit(branch))

    def _file(self, data: bytes, commit: str) -> None:
        size, (first, end) = len(data), (0, len(data))
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes="):
            start, _, last = asked.removeprefix("bytes=").partition("-")
            first, end = (int(start), int(last) + 1 if last else size) if start else (max(0, size - int(last)), size)
        digest = f'"{hashlib.sha256(data).hexdigest()}"'
        headers = {"ETag": digest, "X-Linked-ETag": digest, "X-Linked-Size": str(size)}
        headers |= {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if asked:
            headers["Content-Range"] = f"bytes {first}-{min(end, size) - 1}/{size}"
        self._send(206 if asked else 200, data[first:end], headers)

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _error(self, code: str, status: int | None = None) -> None:
        known, message = _ERRORS[code]
        self._send(status or known, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _information(name: str, repository: Repository, branch: str) -> dict[str, Any]:
    files = [{"rfilename": path, "size": len(data)} for path, data in repository.branches[branch].items()]
    gated, made = "auto" if repository.gated else False, "2024-01-01T00:00:00.000Z"
    about = {"sha": repository.commit(branch), "private": repository.private, "gated": gated, "siblings": files}
    counts = {"tags": [], "downloads": 0, "likes": 0, "lastModified": made, "createdAt": made}
    return {"_id": name, "id": name, **about, **counts}


def _tree(files: Files, under: str) -> list[dict[str, Any]]:
    """All that lies under a folder; clients that ask for one floor are served by the same."""
    prefix = f"{under}/" if under else ""
    inside = sorted(path for path in files if path.startswith(prefix))
    folders = {"/".join(path.split("/")[:depth]) for path in inside for depth in range(1, path.count("/") + 1)}
    listed = sorted(folder for folder in folders if folder.startswith(prefix)) + inside
    return [entry for path in listed for entry in _entries(files, path)]


def _entries(files: Files, path: str) -> list[dict[str, Any]]:
    if path in files:
        data = files[path]
        large = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        found = {
            "type": "file",
            "path": path,
            "size": len(data),
            "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
        }
        return [found | ({"lfs": large} if path.endswith(_LARGE) else {})]
    if any(other.startswith(f"{path}/") for other in files):
        return [{"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}]
    return []


def _files(source: Files | Path) -> Files:
    if isinstance(source, Path):
        found = sorted(path for path in source.rglob("*") if path.is_file())
        return {path.relative_to(source).as_posix(): path.read_bytes() for path in found}
    return source
