"""What a door refuses names the argument: a function shows its name, a command the flag that it has for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hardneg_hub.pushing import push
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.records import LOCK, HardnegError


def refused(call: Callable[[], Any]) -> HardnegError:
    with pytest.raises(HardnegError) as error:
        call()
    return error.value


def by_command(*words: object) -> str:
    return str(CliRunner().invoke(app, [str(word) for word in words]).exception)


@pytest.mark.parametrize("what", ["model", "index", "negatives"])
def test_a_push_of_what_a_run_lacks(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK).write_text("{keys: {}, tree: {stages: {}}, recipe: none, preset: null, start_model: a}")
    told = f"no {what} there: give {{}} as one of"
    assert told.format("wanted") in str(refused(lambda: push(tmp_path, "a/b", what, store=tmp_path)))
    line = ("push", tmp_path, "--repo", "a/b", "--dry-run", "--what", what, "--store", tmp_path)
    assert told.format("--what") in by_command(*line)


def test_a_push_names_what_it_cannot_take(tmp_path: Path) -> None:
    line = ("push", tmp_path, "--repo", "a/b", "--dry-run")
    assert str(refused(lambda: push(tmp_path, "a/b", "texts"))).startswith("wanted 'texts': is one of")
    assert by_command(*line, "--what", "texts").startswith("--what 'texts': is one of")
    assert by_command(*line, "--model", "a b").startswith("--model 'a b': no repository")
    assert str(refused(lambda: push(tmp_path, "a b"))).startswith("repo 'a b': no repository")
    assert by_command("push", tmp_path, "--repo", "a b", "--dry-run").startswith("--repo 'a b': no repository")
