"""What is refused names the argument: a function shows its name, a command the flag that it has for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hardneg_browse import sources
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.records.errors import HardnegError
from hardneg.records.layout import LOCK


def refused(call: Callable[[], Any]) -> HardnegError:
    with pytest.raises(HardnegError) as error:
        call()
    return error.value


def by_command(*words: object) -> str:
    return str(CliRunner().invoke(app, [str(word) for word in words]).exception)


def test_a_page_without_queries_of_a_split_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK).touch()
    monkeypatch.setattr(sources, "artifacts_of", lambda folder, store: {})
    lacking = f"{tmp_path}: no step of it mined negatives or ranked queries of split dev; name "
    store = tmp_path / "store"
    assert str(refused(lambda: hn.browse(tmp_path, split="dev", store=store))) == f"{lacking}split"
    export = ["--export", tmp_path / "page.html"]
    assert by_command("browse", tmp_path, "--split", "dev", "--store", store, *export) == f"{lacking}--split"


def test_runs_beside_a_folder_are_the_option_run(tmp_path: Path) -> None:
    advice = "browse: give one folder alone, or files; to compare with a run, add "
    folders: list[str | Path] = [tmp_path, tmp_path]
    assert str(refused(lambda: hn.browse(folders, store=tmp_path / "store"))) == f"{advice}runs"
    export = ["--store", tmp_path / "store", "--export", tmp_path / "page.html"]
    assert by_command("browse", *folders, *export) == f"{advice}--run"
