"""What tests of shards share: an index of each form, and small cells."""

from pathlib import Path

import pytest
from indexes.shards.parts import documents

from hardneg.indexes import shard_search
from hardneg.indexes.kernels.maxsim import exact_maxsim as multi_vector_exact
from hardneg.testing.forms import FORMS, write_encoded


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return {form: write_encoded(folder / form, documents(form)) for form in FORMS}


@pytest.fixture
def small_cells(monkeypatch):
    """So that each shard has some."""
    monkeypatch.setattr(shard_search, "_CELL", 64)
    monkeypatch.setattr(multi_vector_exact, "_CELL", 256)
