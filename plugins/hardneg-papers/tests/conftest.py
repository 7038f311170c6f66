"""The tests run in hardneg's sources: the small collections and the tiny encoder are those of hardneg's own tests."""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "training")]
sys.path.append(str(Path(__file__).parents[3]))  # for helpers of `tests`, behind what is installed

for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[_name] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the processes that tests start: sums are alike to the bit


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


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands note in the usual store goes elsewhere."""
    os.environ["HARDNEG_STORE"] = str(tmp_path_factory.mktemp("usual-store"))
