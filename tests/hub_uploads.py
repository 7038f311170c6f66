"""What a server of this machine answers to uploads, as the Hugging Face hub does; `hub_server` answers all the rest.

Repositories are made, files are sent (large ones by Git LFS), and commits change a branch at once.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from hub_server import Hub, Repository

TOKEN = "hf_madeUpTokenOfTheTestsAbcdefghij"
LARGE = (".bin", ".safetensors", ".parquet", ".gz", "index")
Answer = tuple[int, Any]


@dataclass
class Uploads:
    """What was uploaded. owners: whose repositories may be written. large: bytes by SHA-256. commits: their messages.

    refuse: (verb, a part of the path) to the status with which such a request is answered.
    """

    owners: tuple[str, ...] = ("me", "org")
    large: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    refuse: dict[tuple[str, str], int] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)

    def refused(self, verb: str, path: str) -> int | None:
        return next((code for (own, part), code in self.refuse.items() if own == verb and part in path), None)


def git_name(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def answer(hub: "Hub", verb: str, path: str, body: bytes) -> Answer | None:
    """The status and the JSON of an answer; None where the request is no part of an upload."""
    hub.uploads.bodies.append(body)
    if code := hub.uploads.refused(verb, path):
        return code, {"error": f"refused with {code}; the token was {TOKEN}"}
    parts = path.strip("/").split("/")
    if (verb, path) in _PLAIN:
        return _PLAIN[verb, path](hub, body)
    if verb == "PUT" and parts[0] == "lfs":
        return _large(hub, parts[1], body)
    if path.endswith(".git/info/lfs/objects/batch"):
        return _batch(hub, json.loads(body))
    if verb in ("POST", "PUT") and len(parts) > 4 and parts[4] in _OF_REPOSITORY and parts[0] == "api":
        name = f"{parts[1]}/{parts[2]}/{parts[3]}"
        if name not in hub.repositories:
            return 404, {"error": "Repository not found"}
        return _OF_REPOSITORY[parts[4]](hub, name, "/".join(parts[5:]), body)
    return None


def _whoami(hub: "Hub", body: bytes) -> Answer:
    return 200, {"type": "user", "name": "me", "orgs": [{"name": "org"}]}


def _check_card(hub: "Hub", body: bytes) -> Answer:
    text = json.loads(body)["content"]
    try:
        content = yaml.safe_load(text.split("---")[1]) if text.startswith("---") else {}
    except yaml.YAMLError as error:
        return 400, {"errors": [{"message": str(error)}]}
    return 200, {"errors": [], "warnings": [] if content else [{"message": "empty metadata"}]}


def _create(hub: "Hub", body: bytes) -> Answer:
    asked = json.loads(body)
    owner, kind = asked.get("organization") or "me", asked.get("type") or "model"
    name = f"{kind}s/{owner}/{asked['name']}"
    if owner not in hub.uploads.owners:
        return 403, {"error": "You don't have the rights to create a repository under this namespace"}
    if name in hub.repositories:
        return 409, {"error": "You already created this repository"}
    private = asked.get("private", asked.get("visibility") == "private")
    hub.add(name, {".gitattributes": b"*.safetensors filter=lfs\n"}, private=private)
    prefix = "" if kind == "model" else f"{kind}s/"
    return 200, {"url": f"{hub.address}/{prefix}{owner}/{asked['name']}"}


def _preupload(hub: "Hub", name: str, revision: str, body: bytes) -> Answer:
    there = hub.repositories[name].branches[revision]
    files = []
    for file in json.loads(body)["files"]:
        path, data = file["path"], there.get(file["path"])
        mode = "lfs" if path.endswith(LARGE) else "regular"
        oid = None if data is None else hashlib.sha256(data).hexdigest() if mode == "lfs" else git_name(data)
        files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return 200, {"files": files}


def _batch(hub: "Hub", asked: Mapping[str, Any]) -> Answer:
    objects = []
    for item in asked["objects"]:
        there = item["oid"] in hub.uploads.large
        actions = {"upload": {"href": f"{hub.address}/lfs/{item['oid']}"}}
        objects.append({**item, **({} if there else {"actions": actions})})
    return 200, {"transfer": "basic", "objects": objects}


def _large(hub: "Hub", oid: str, body: bytes) -> Answer:
    if hashlib.sha256(body).hexdigest() != oid:
        return 400, {"error": "these are other bytes"}
    hub.uploads.large[oid] = body
    return 200, {}


def _commit(hub: "Hub", name: str, revision: str, body: bytes) -> Answer:
    repository = hub.repositories[name]
    if revision not in repository.branches:
        return 404, {"error": "Invalid rev id"}
    rows = [json.loads(line) for line in body.splitlines()]
    head = rows[0]["value"]
    if head.get("parentCommit") not in (None, repository.commit(revision)):
        return 412, {"error": "the branch has another commit"}
    files = dict(repository.branches[revision])
    for row in rows[1:]:
        value = row["value"]
        if row["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif value["oid"] in hub.uploads.large:
            files[value["path"]] = hub.uploads.large[value["oid"]]
        else:
            return 400, {"error": f"{value['path']} was not uploaded"}
    hub.repositories[name] = _with_branch(repository, revision, files)
    hub.uploads.commits.append(head["summary"])
    oid = hub.repositories[name].commit(revision)
    return 200, {"success": True, "commitOid": oid, "commitUrl": f"{hub.address}/{name}/commit/{oid}"}


def _settings(hub: "Hub", name: str, revision: str, body: bytes) -> Answer:
    asked = json.loads(body)
    private = asked.get("private", asked.get("visibility") == "private")
    hub.repositories[name] = replace(hub.repositories[name], private=private)
    return 200, {"private": private}


def _branch(hub: "Hub", name: str, branch: str, body: bytes) -> Answer:
    repository = hub.repositories[name]
    start = repository.branch(json.loads(body).get("startingPoint") or "main") or "main"
    hub.repositories[name] = _with_branch(repository, branch, repository.branches[start])
    return 200, {}


def _with_branch(repository: "Repository", branch: str, files: Mapping[str, bytes]) -> "Repository":
    return replace(repository, branches={**repository.branches, branch: files})


_PLAIN: Mapping[tuple[str, str], Callable[["Hub", bytes], Answer]] = {
    ("GET", "/api/whoami-v2"): _whoami,
    ("POST", "/api/validate-yaml"): _check_card,
    ("POST", "/api/repos/create"): _create,
}
_OF_REPOSITORY: Mapping[str, Callable[["Hub", str, str, bytes], Answer]] = {
    "preupload": _preupload,
    "commit": _commit,
    "settings": _settings,
    "branch": _branch,
}
