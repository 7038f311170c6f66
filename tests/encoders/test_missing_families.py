"""A model or an index of a family whose package is not installed is answered with the package to install."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_multi_vector, tiny_sparse_encoder

from hardneg import registry
from hardneg.encoders.open.resolved import load_encoder, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.indexes.open_store import open_store
from hardneg.records import HardnegError, PluginError, PluginSetting
from hardneg.testing.indexes import write_encoded
from tests.encoders.test_pinned_models import pylate, stanford

TOLD = "in package hardneg-{0}, which is not installed; run pip install ./plugins/hardneg-{0}"


@pytest.fixture(autouse=True)
def without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found, gone = registry.entry_points, ("multi-", "sparse")
    monkeypatch.setattr(registry, "entry_points", lambda kind: [p for p in found(kind) if p.name[:6] not in gone])
    names = {*registry.plugin_names("encoders"), *registry.plugin_names("indexes")}
    assert not {"multi-vector", "multi-vector-pq", "sparse"} & names


@pytest.mark.parametrize(
    ("make", "family"),
    [*((make, "multi-vector") for make in (tiny_multi_vector, pylate, stanford)), (tiny_sparse_encoder, "sparse")],
)
def test_a_folder_names_the_package_to_install(make: Callable[[Path], Path], family: str, tmp_path: Path) -> None:
    spec = ModelSpec(str(make(tmp_path / "model")))
    for ask in (lambda: load_encoder(spec, "cpu"), lambda: resolve(spec).digest):
        with pytest.raises(HardnegError, match=f"model: belongs to the family {family}, {TOLD.format(family)}"):
            ask()


@pytest.mark.parametrize("family", ["multi-vector", "sparse"])
def test_so_do_the_name_of_the_family_and_an_index(family: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=TOLD.format(family)):
        resolve(ModelSpec("packaged:all-MiniLM-L6-v2", encoder=PluginSetting(family)))
    write_encoded(tmp_path / "index", np.eye(3, dtype=np.float32))
    if family == "sparse":
        (tmp_path / "index" / "sparse.json").write_text("{}")
    else:
        np.save(tmp_path / "index" / "offsets.npy", np.arange(4))
    with pytest.raises(PluginError, match=TOLD.format(family)):
        open_store(tmp_path / "index")
