"""What tests of shards share: an index of each form, and little room."""

from pathlib import Path

import pytest
from indexes.shards.parts import documents

from hardneg.formats.vectors.shard_cache import ShardCache
from hardneg.indexes import shard_search
from hardneg.indexes.kernels.maxsim import exact_maxsim as multi_vector_exact
from hardneg.testing.forms import FORMS, write_encoded


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return {form: write_encoded(folder / form, documents(form)) for form in FORMS}


@pytest.fixture
def small_cache(tmp_path, monkeypatch):
    """Room for one shard, but for the two that are always kept."""
    cache = ShardCache(tmp_path / "cache", 1)
    cache.root.mkdir()
    monkeypatch.setattr(ShardCache, "own", lambda: cache)
    return cache


@pytest.fixture
def small_cells(monkeypatch):
    """So that each shard has some."""
    monkeypatch.setattr(shard_search, "_CELL", 64)
    monkeypatch.setattr(multi_vector_exact, "_CELL", 256)
