"""What several processes share, and where each has it."""

from typing import Any

import pytest
import torch
from torch import nn

from hardneg.runtime import World, distributed, join
from hardneg.training import loop


def test_a_module_that_is_shared_stays_on_its_own_device(monkeypatch):
    given: dict[str, Any] = {}

    class Wrapped(nn.Sequential):
        def __init__(self, module: nn.Module, **options: Any) -> None:
            given.update(options)
            super().__init__(module)

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", Wrapped)
    module = nn.Linear(1, 1)
    assert loop.shared(module) is module
    monkeypatch.setattr(loop, "world", lambda: World(1, 2, 1, 2))
    assert list(loop.shared(module).children()) == [module]
    assert given == {"find_unused_parameters": True}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("gpus", "backend"), [(1, "gloo"), (2, "cpu:gloo,cuda:nccl")])
def test_processes_that_share_too_few_gpus_agree_on_how_to_meet(monkeypatch, rank, gpus, backend):
    asked: list[str] = []
    monkeypatch.setattr(distributed, "world", lambda: World(rank, 2, rank, 2))
    monkeypatch.setattr(distributed, "_meet", lambda here: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda name, **_: asked.append(name))
    join(on_cpu=False)
    assert asked == [backend]
