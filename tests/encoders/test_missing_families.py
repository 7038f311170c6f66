"""A model or an index of a family whose package is not installed is answered with the package to install."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_multi_vector

from hardneg.encoders.open.resolved import load_encoder, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.indexes.open_store import open_store
from hardneg.records.errors import HardnegError, PluginError
from hardneg.records.types import PluginSetting
from hardneg.registry import plugins
from hardneg.testing.forms import write_encoded
from tests.encoders.test_pinned_models import pylate, stanford

TOLD = "in package hardneg-multi-vector, which is not installed: pip install ./plugins/hardneg-multi-vector"


@pytest.fixture(autouse=True)
def without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugins.entry_points
    monkeypatch.setattr(
        plugins, "entry_points", lambda kind: [point for point in found(kind) if not point.name.startswith("multi-v")]
    )
    assert not {"multi-vector", "multi-vector-pq"} & {
        *plugins.plugin_names("encoders"),
        *plugins.plugin_names("indexes"),
    }


@pytest.mark.parametrize("make", [tiny_multi_vector, pylate, stanford])
def test_a_folder_names_the_package_to_install(make: Callable[[Path], Path], tmp_path: Path) -> None:
    spec = ModelSpec(str(make(tmp_path / "model")))
    for ask in (lambda: load_encoder(spec, "cpu"), lambda: resolve(spec).digest):
        with pytest.raises(HardnegError, match=f"model: it is of the family multi-vector, {TOLD}"):
            ask()


def test_so_do_the_name_of_the_family_and_an_index(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=TOLD):
        resolve(ModelSpec("packaged:all-MiniLM-L6-v2", encoder=PluginSetting("multi-vector")))
    write_encoded(tmp_path / "index", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "index" / "offsets.npy", np.arange(4))
    with pytest.raises(PluginError, match=TOLD):
        open_store(tmp_path / "index")
