"""The tests run in hardneg's sources: the small collections and the tiny encoder are those of hardneg's own tests."""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(Path(__file__).parent), str(TESTS)]
sys.path.append(str(TESTS.parent))  # for helpers of `tests`, behind what is installed
from package_fixtures import own_store, test_data, tiny_model  # noqa: E402, F401

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the processes that tests start: sums are alike to the bit


@pytest.fixture(scope="session")
def tiny_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny network as a classifier of pairs with one output; do not write into it."""
    from tiny import tiny_reranker

    return tiny_reranker(tmp_path_factory.mktemp("tiny") / "reranker")
