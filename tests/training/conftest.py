"""A toy task that a tiny encoder can learn: queries and their passages share a rare word."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 40 documents and a file of negatives for 12 queries."""
    from toy import write_toy

    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(autouse=True)
def one_seed() -> None:
    """Tests that draw with numpy's old interface draw the same."""
    np.random.seed(0)
