"""Pushes to a hub of this machine: what goes there, how often, for whom, and what is told when it does not."""

import re
import socket
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hub_server import Hub
from hub_uploads import TOKEN
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.doors.hub.preparing import Wanted, prepare
from hardneg.doors.hub.push import planned
from hardneg.records.errors import HardnegError, UsageError
from hardneg.store.artifacts import Store

NAME = "models/org/tiny"


def push(folder: Path, store: Store, *more: str) -> str:
    """What the command prints, its last line the error where there is one."""
    words = ["push", str(folder), "--repo", "org/tiny", "--store", str(store.root), *more]
    done = CliRunner().invoke(app, words)
    if isinstance(done.exception, HardnegError):
        return f"{done.output}\n{type(done.exception).__name__}: {done.exception}"
    assert done.exception is None
    return done.output


def there(hub: Hub) -> dict[str, bytes]:
    return dict(hub.repositories[NAME].branches["main"])


def test_a_model_goes_as_one_commit_private_and_a_second_push_makes_none(hub, run, store):
    assert "new, private" in push(run, store, "--message", "first")
    files = there(hub)
    assert hub.uploads.commits == ["first"] and hub.repositories[NAME].private
    assert files["model.safetensors"] == (run / "model" / "model.safetensors").read_bytes()
    assert {"README.md", "recipe.lock.yaml", "modules.json", "hardneg.json", "tokenizer.json"} < set(files)
    assert push(run, store).rstrip().endswith("nothing has changed, no commit was made")
    assert hub.uploads.commits == ["first"]


def test_only_what_changed_is_sent_and_what_others_put_there_stays(hub, run, store):
    push(run, store)
    hub.add(NAME, {**there(hub), "notes.txt": b"mine"}, private=True)
    card = run / "model" / "README.md"
    card.write_text(card.read_text() + "\nMore of it.\n")
    told = push(run, store)
    assert "0 new, 1 changed, 11 as there" in told and "changed: README.md" in told
    assert "stay there, no part of this push: notes.txt" in told
    assert there(hub)["notes.txt"] == b"mine" and b"More of it." in there(hub)["README.md"]


def test_nothing_private_is_in_any_byte_that_was_sent(hub, run, store, tiny_model, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "annas-laptop-7")
    monkeypatch.setenv("HOME", str(tiny_model.parent))
    push(run, store, "--public", "--yes")
    sent = b"".join(hub.uploads.bodies)
    lock = there(hub)["recipe.lock.yaml"].decode()
    assert len(sent) > 300_000 and "title: Negatives of data" in lock
    for content in (sent, *there(hub).values()):
        for private in (Path.home(), store.root, run, tiny_model, Path.cwd(), socket.gethostname(), TOKEN):
            assert str(private).encode() not in content
    tree = yaml.safe_load(lock)["tree"]
    assert tree["dataset"] == "beir:data" and tree["model"]["name"] == tiny_model.name


def test_public_is_asked_for(hub, run, store, monkeypatch):
    assert "pass --yes" in push(run, store, "--public") and NAME not in hub.repositories
    typed = StringIO("y\nyes\n")
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("hardneg.cli.push.sys", SimpleNamespace(stdin=typed, stderr=sys.stderr))
    assert "not pushed" in push(run, store, "--public") and NAME not in hub.repositories
    assert push(run, store, "--public").rstrip().endswith("public now")
    assert not hub.repositories[NAME].private


def test_a_repository_that_is_public_already_is_asked_for_too(hub, run, store):
    hub.add(NAME, {".gitattributes": b""})
    assert "org/tiny is public: everybody reads what is pushed; pass --yes" in push(run, store)
    assert list(there(hub)) == [".gitattributes"]
    push(run, store, "--yes")
    assert "model.safetensors" in there(hub)


def test_a_repository_is_opened_after_its_files_are_there(hub, run, store):
    push(run, store, "--public", "--yes")
    asked = [path for _, path in hub.asked]
    assert asked.index("/api/models/org/tiny/settings") > asked.index("/api/models/org/tiny/commit/main")


def test_a_branch_is_made(hub, run, store):
    push(run, store)
    before = there(hub)
    (run / "model" / "README.md").write_text("# Another\n")
    assert "branch next (new)" in push(run, store, "--revision", "next")
    assert there(hub) == before
    assert b"# Another" in hub.repositories[NAME].branches["next"]["README.md"]


def test_a_dry_run_shows_files_and_card_and_asks_nothing(hub, run, store):
    told = push(run, store, "--dry-run")
    assert hub.asked == [] and "model.safetensors" in told and "model-index:" in told
    assert told.rstrip().endswith("nothing was sent: a dry run")


def test_the_cards_say_that_the_queries_were_written(hub, run, store):
    path = run / "recipe.lock.yaml"
    lock = yaml.safe_load(path.read_text())
    stages = lock["tree"]["stages"]
    stages["written"] = {"stage": "write-queries", "writers": ["crop"]}
    for name in ("start-test", "star-test", "scores"):
        stages[name]["dataset"] = "written"
    path.write_text(yaml.safe_dump(lock, sort_keys=False))
    told = " ".join(push(run, store, "--dry-run").split())
    assert "name: data, written queries" in told and "Means over 4 written queries of the split `test`" in told


@pytest.mark.parametrize(
    ("verb", "path", "status", "line"),
    [
        ("GET", "whoami", 401, "does not know the token"),
        ("POST", "repos/create", 403, "does not let this token write there"),
        ("POST", "repos/create", 409, "has something of that name already"),
        ("POST", "preupload", 404, "has no such repository or branch"),
        ("POST", "objects/batch", 413, "finds a file or the commit too large"),
        ("PUT", "lfs", 403, "does not let this token write there"),
        ("POST", "commit", 412, "has had another commit in the meantime"),
        ("POST", "commit", 500, "cannot do it now: try again later"),
        ("POST", "validate-yaml", 400, "look at the card's metadata"),
    ],
)
def test_what_the_hub_refuses_is_one_line_without_the_token(hub, run, store, verb, path, status, line):
    hub.uploads.refuse[verb, path] = status
    told = push(run, store)
    last = told.rstrip().splitlines()[-1]
    assert last.startswith("HubError: ") and line in last and TOKEN not in told and "Traceback" not in told
    assert hub.uploads.commits == []
    hub.uploads.refuse.clear()
    push(run, store)
    assert len(hub.uploads.commits) == 1


def test_what_was_sent_before_a_push_stopped_is_not_sent_again(hub, run, store):
    hub.uploads.refuse["POST", "commit"] = 403
    push(run, store)
    assert list(there(hub)) == [".gitattributes"] and len(hub.uploads.large) == 1
    hub.uploads.refuse.clear()
    hub.asked.clear()
    push(run, store)
    assert not [path for verb, path in hub.asked if verb == "PUT"] and len(there(hub)) == 13


def test_a_server_without_xet_gets_large_files_by_lfs(hub, run, store):
    from huggingface_hub import constants

    before = constants.HF_HUB_DISABLE_XET
    push(run, store)
    asked = [path for _, path in hub.asked]
    token = asked.index("/api/models/org/tiny/xet-write-token/main")
    assert token < asked.index("/org/tiny.git/info/lfs/objects/batch")
    assert constants.HF_HUB_DISABLE_XET is before is False


def test_without_a_login_without_a_network_and_offline(hub, run, store, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9 cannot be reached: go online" in push(run, store)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere")
    assert "nobody is logged in to the hub: `hf auth login`, or set HF_TOKEN" in push(run, store)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in push(run, store)


def test_a_repository_that_changes_meanwhile_is_left_as_it_is(hub, run, store):
    push(run, store)
    (run / "model" / "README.md").write_text("# Mine\n")
    found = planned(prepare(run, "org/tiny", Wanted(), store, run), "org/tiny", False, None)
    hub.add(NAME, {**there(hub), "theirs.txt": b"new"}, private=True)
    with pytest.raises(HardnegError, match=re.escape("another commit in the meantime")):
        found.send()
    assert "theirs.txt" in there(hub) and b"# Mine" not in there(hub)["README.md"]


def test_names_that_no_repository_has(run, store):
    done = CliRunner().invoke(app, ["push", str(run), "--repo", "a/b/c"])
    assert "no repository may be called that" in str(done.exception)


def test_a_name_without_an_owner_is_the_users_own(hub, run, store):
    found = planned(prepare(run, "tiny", Wanted(), store, run), "tiny", False, None)
    assert found.repository.name == "me/tiny"


def test_the_function_makes_nothing_public_unasked(hub, run, store):
    import hardneg as hn

    made = hn.push(run, "org/tiny", store=store.root)
    assert made.address == f"{hub.address}/org/tiny" and made.files == 12 and hub.repositories[NAME].private
    hub.add(NAME, {".gitattributes": b""})
    with pytest.raises(UsageError, match="org/tiny is public: everybody reads what is pushed; set public=True"):
        hn.push(run, "org/tiny", store=store.root)
    assert hn.push(run, "org/tiny", "model", public=True, store=store.root).files == 12
