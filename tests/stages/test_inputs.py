"""How indexes are opened for a training loop."""

import pytest
import torch

from hardneg.indexes.exact import ExactOptions
from hardneg.stages.inputs import _for_few


def test_an_index_that_is_searched_again_and_again_stays_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 << 30, 80 << 30))
    assert _for_few(ExactOptions(device="cuda")) == ExactOptions(device="cuda", engine="torch", resident=30 << 30)
    assert _for_few(ExactOptions(device="cpu")) == ExactOptions(device="cpu", engine="torch", resident=512 << 20)
