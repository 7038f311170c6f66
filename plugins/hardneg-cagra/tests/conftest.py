import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # where cuvs_by_hand is

from cuvs_by_hand import Cuvs


@pytest.fixture
def cuvs(monkeypatch: pytest.MonkeyPatch) -> Cuvs:
    """A stand-in for cuVS that computes on the CPU."""
    import torch
    from hardneg_cagra import graph

    by_hand, neighbors = Cuvs(), ModuleType("cuvs.neighbors")
    neighbors.cagra = by_hand  # type: ignore[attr-defined]
    for name, module in (("cuvs", ModuleType("cuvs")), ("cuvs.neighbors", neighbors), (by_hand.__name__, by_hand)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda name: nullcontext())
    monkeypatch.setattr(graph, "_BUILT_ON", "cpu")
    return by_hand
