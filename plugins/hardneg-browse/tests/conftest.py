"""What tests of the page share: something to look at, opened. They run in hardneg's sources, with its helpers."""

import os
import sys
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    from material import small_sources

    return small_sources(tmp_path_factory.mktemp("looked-at"))


@pytest.fixture(scope="session")
def browsed(sources):
    from hardneg_browse.browsed import opened

    from hardneg.runtime.progress import Silent

    with opened(sources, Silent()) as found:
        yield found
