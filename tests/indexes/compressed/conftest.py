"""A flat index, which tests compress."""

from pathlib import Path

import pytest
from indexes.compressed.kinds import _folder, _vectors


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _folder(tmp_path_factory.mktemp("flat") / "index", _vectors())
