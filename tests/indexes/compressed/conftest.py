"""A flat index, which tests compress."""

from pathlib import Path

import pytest
from indexes.compressed.kinds import drawn_vectors, flat_index


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flat_index(tmp_path_factory.mktemp("flat") / "index", drawn_vectors())
