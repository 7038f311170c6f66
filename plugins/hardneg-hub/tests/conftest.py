"""A hub in memory and a finished run to push to it. The tests run in hardneg's sources, with its helpers."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hardneg.store import Store

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]
from package_fixtures import own_store, tiny_model  # noqa: E402, F401


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    from fake_hub import asking

    return asking(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[Path, Store]:  # noqa: F811
    """A run folder and its store; do not write into them."""
    from finished import finished_run

    folder = tmp_path_factory.mktemp("finished")
    store = Store(folder / "store")
    return finished_run(folder / "run", store, tiny_model), store


@pytest.fixture
def run(finished: tuple[Path, Store], tmp_path: Path) -> Path:
    """The run folder, to be changed."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


@pytest.fixture
def store(finished: tuple[Path, Store]) -> Store:
    return finished[1]
