"""What every test shares: no network, a tiny encoder, and real collections where they are."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["TOKENIZERS_PARALLELISM"] = "false"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many workers as cores
sys.path.insert(0, str(Path(__file__).parent))
from package_fixtures import datasets_cache, started_java, test_data, tiny_model  # noqa: F401

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SLOW_LIMIT = 3600
"""Seconds for a slow test, many times what one takes on an idle machine; the limit of others is in pyproject.toml."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT))


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands without a store note their outputs in the usual one, which is not to be the user's here."""
    os.environ["HARDNEG_STORE"] = str(tmp_path_factory.mktemp("usual-store"))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, which is the current one, with `store` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    return tmp_path


@pytest.fixture(scope="session")
def tiny_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network as a classifier of pairs with one output; do not write into it."""
    from tiny import tiny_reranker

    return tiny_reranker(tmp_path_factory.mktemp("tiny") / "reranker")
