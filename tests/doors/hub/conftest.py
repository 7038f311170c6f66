"""A hub of this machine that this process asks, and a finished run to push to it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import Hub, hub_server
from hub_uploads import TOKEN

from hardneg.store.artifacts import Store


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The client reads these as it is imported, so they are changed where it keeps them."""
    from huggingface_hub import close_session, constants

    with hub_server() as server:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
        close_session()
        yield server
        close_session()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[Path, Store]:
    """A run folder and its store; do not write into them."""
    from doors.hub.finished import finished_run

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
