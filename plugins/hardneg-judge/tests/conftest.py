import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # where the server is
sys.path.append(str(Path(__file__).parents[3] / "tests"))  # processes that tests kill are forked as hardneg's own

from chat_server import Served, serving
from hardneg_http import server as model_server


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(model_server, "_FIRST_WAIT", 0.01)
    with serving() as server:
        yield server
