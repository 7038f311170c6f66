"""Fixtures that the tests of hardneg and of its packages share."""

import os
from pathlib import Path

import pytest

from hardneg.records import MissingDependency

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands note in the usual store goes elsewhere."""
    os.environ["HARDNEG_STORE"] = str(tmp_path_factory.mktemp("usual-store"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentenceTransformer folder with a random two-layer encoder of 32 dimensions; do not write into it."""
    from tiny import tiny_encoder

    return tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real collections; skips where there is none."""
    folder = os.environ.get("HARDNEG_TEST_DATA")
    if not folder:
        pytest.skip("HARDNEG_TEST_DATA is not set: it names the folder of real collections")
    return Path(folder)


@pytest.fixture(scope="session")
def started_java() -> None:
    """This process's Java machine; skips where there is none that fits."""
    from hardneg.indexes.lucene import start_java

    try:
        start_java()
    except MissingDependency as error:
        pytest.skip(str(error))


@pytest.fixture
def datasets_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the test's own for what `datasets` keeps of tables; skips where that is not installed."""
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
