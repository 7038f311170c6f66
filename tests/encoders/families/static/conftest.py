"""Static models that tests share: one as it is saved, and one of a transformer's token table."""

from pathlib import Path

import pytest
from tiny import tiny_static

from hardneg.encoders.spec import ModelSpec
from hardneg.records import PluginSetting


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_static(tmp_path_factory.mktemp("static") / "model")


@pytest.fixture(scope="module")
def from_transformer(tiny_model: Path) -> ModelSpec:
    return ModelSpec(str(tiny_model), encoder=PluginSetting("static", {"dimensions": 8}))
