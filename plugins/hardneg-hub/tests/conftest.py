"""A hub in memory and a finished run to push to it. The tests run in hardneg's sources, with its helpers."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hardneg.store.artifacts import Store

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]
for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[_name] = "1"


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands note in the usual store goes elsewhere."""
    os.environ["HARDNEG_STORE"] = str(tmp_path_factory.mktemp("usual-store"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentenceTransformer folder with a random two-layer encoder of 32 dimensions; do not write into it."""
    from tiny import tiny_encoder

    return tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    from fake_hub import asking

    return asking(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[Path, Store]:
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
