"""Pushes to a hub in memory, and the names of arguments in refusals."""

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import yaml
from fake_hub import FakeHub
from hardneg_hub import pushing
from hub_server import TOKEN
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.records import LOCK, HardnegError, UsageError
from hardneg.store import Store

NAME = "org/tiny"


def push(folder: Path, store: Store, *more: str, name: str = NAME) -> str:
    """What the command prints, its last line the error where there is one."""
    words = ["push", str(folder), "--repo", name, "--store", str(store.root), *more]
    done = CliRunner().invoke(app, words)
    if isinstance(done.exception, HardnegError):
        return f"{done.output}\n{type(done.exception).__name__}: {done.exception}"
    assert done.exception is None, done.exception
    return done.output


def there(hub: FakeHub, branch: str = "main") -> dict[str, bytes]:
    return hub.files[NAME][branch]


def test_a_model_goes_as_one_commit_private_and_a_second_push_makes_none(hub, run, store):
    assert "model org/tiny: new" in push(run, store, "--message", "first")
    files = there(hub)
    assert hub.messages == ["first"] and hub.private[NAME]
    assert files["model.safetensors"] == (run / "model" / "model.safetensors").read_bytes()
    assert {"README.md", "recipe.lock.yaml", "modules.json", "hardneg.json", "tokenizer.json"} < set(files)
    assert push(run, store).rstrip().endswith("nothing changed, no commit made")
    assert hub.messages == ["first"]


def test_what_others_put_there_stays(hub, run, store):
    push(run, store)
    there(hub)["notes.txt"] = b"mine"
    card = run / "model" / "README.md"
    card.write_text(card.read_text() + "\nMore of it.\n")
    assert "exists, private" in push(run, store)
    assert there(hub)["notes.txt"] == b"mine" and b"More of it." in there(hub)["README.md"]


def test_a_pushed_folder_holds_no_private_path(hub, run, store, tiny_model, monkeypatch):
    monkeypatch.setenv("HOME", str(tiny_model.parent))
    push(run, store, "--public", "--yes")
    lock = there(hub)["recipe.lock.yaml"].decode()
    assert "title: Negatives of data" in lock
    for content in there(hub).values():
        for private in (Path.home(), store.root, run, tiny_model, Path.cwd(), TOKEN):
            assert str(private).encode() not in content
    tree = yaml.safe_load(lock)["tree"]
    assert tree["dataset"] == "beir:data" and tree["model"]["name"] == tiny_model.name


def test_public_is_asked_for_and_made_last(hub, run, store, monkeypatch):
    assert "pass --yes" in push(run, store, "--public") and NAME not in hub.files
    typed = StringIO("y\nyes\n")
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("hardneg_hub.command.sys", SimpleNamespace(stdin=typed, stderr=sys.stderr))
    assert "not pushed" in push(run, store, "--public") and NAME not in hub.files
    assert push(run, store, "--public").rstrip().endswith("public now")
    assert not hub.private[NAME] and hub.asked.index("update_repo_settings") > hub.asked.index("create_commit")


def test_a_repository_that_is_public_already_is_asked_for_too(hub, run, store):
    hub.create_repo(NAME, repo_type="model", private=False)
    assert "org/tiny is public, so the pushed files will be public; pass --yes" in push(run, store)
    assert not there(hub)
    push(run, store, "--yes")
    assert "model.safetensors" in there(hub)


def test_a_dry_run_shows_files_and_card_and_asks_nothing(hub, run, store):
    told = push(run, store, "--dry-run")
    assert hub.asked == [] and "model.safetensors" in told and "model-index:" in told
    assert told.rstrip().endswith("dry run: nothing was sent")


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
    ("method", "status", "line"),
    [
        ("repo_info", 401, "rejects the token"),
        ("create_repo", 403, "does not let this token write there"),
        ("create_commit", 412, "has received a new commit since this push started"),
        ("create_commit", 500, "is not available; try again later"),
    ],
)
def test_what_the_hub_refuses_is_one_line_without_the_token(hub, run, store, method, status, line):
    hub.refuse[method] = status
    told = push(run, store)
    last = told.rstrip().splitlines()[-1]
    assert last.startswith("HubError: ") and line in last and TOKEN not in told and "no, [token]" in last
    hub.refuse.clear()
    push(run, store)
    assert len(hub.messages) == 1


def test_without_a_login_without_a_network_and_offline(hub, run, store, monkeypatch):
    from httpx import ConnectError

    def lost(*_: object, **__: object) -> None:
        raise ConnectError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(hub, "repo_info", lost)
        assert "; check the network; push again" in push(run, store)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", "/nowhere")
    assert "not logged in to the hub; run `hf auth login`, or set HF_TOKEN" in push(run, store)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in push(run, store)


def test_names(hub, run, store):
    assert "not a repository name" in push(run, store, name="a/b/c")
    assert "model me/tiny: new" in push(run, store, name="tiny")


def test_the_function_makes_nothing_public_unasked(hub, run, store):
    import hardneg as hn

    made = hn.push(run, NAME, store=store.root)
    assert made.address == f"https://hub.test/{NAME}" and made.files == 12 and hub.private[NAME]
    hub.create_repo(NAME, repo_type="model", private=False)
    with pytest.raises(UsageError, match="org/tiny is public, so the pushed files will be public; set public=True"):
        hn.push(run, NAME, store=store.root)
    assert hn.push(run, NAME, "model", public=True, store=store.root).files == 12


def refused(call: Callable[[], Any]) -> HardnegError:
    with pytest.raises(HardnegError) as error:
        call()
    return error.value


def by_command(*words: object) -> str:
    return str(CliRunner().invoke(app, [str(word) for word in words]).exception)


@pytest.mark.parametrize("what", ["model", "index", "negatives"])
def test_a_push_of_what_a_run_lacks(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK).write_text("{keys: {}, tree: {stages: {}}, recipe: none, preset: null, start_model: a}")
    told = f"contains no {what}; set {{}} to one of"
    assert told.format("wanted") in str(refused(lambda: pushing.push(tmp_path, "a/b", what, store=tmp_path)))
    line = ("push", tmp_path, "--repo", "a/b", "--dry-run", "--what", what, "--store", tmp_path)
    assert told.format("--what") in by_command(*line)


def test_a_push_names_what_it_cannot_take(tmp_path: Path) -> None:
    line = ("push", tmp_path, "--repo", "a/b", "--dry-run")
    assert str(refused(lambda: pushing.push(tmp_path, "a/b", "texts"))).startswith("wanted 'texts': must be one of")
    assert by_command(*line, "--what", "texts").startswith("--what 'texts': must be one of")
    assert by_command(*line, "--model", "a b").startswith("--model 'a b': not a repository name")
    assert str(refused(lambda: pushing.push(tmp_path, "a b"))).startswith("repo 'a b': not a repository name")
    assert by_command("push", tmp_path, "--repo", "a b", "--dry-run").startswith("--repo 'a b': not a repository name")
