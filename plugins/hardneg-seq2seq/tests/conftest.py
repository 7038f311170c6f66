import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))  # where the tiny T5 is made


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random T5, which tests must not change."""
    from tiny_t5 import tiny_t5

    return tiny_t5(tmp_path_factory.mktemp("tiny") / "t5")
