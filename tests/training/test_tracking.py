"""What several processes share, and where each has it."""

from typing import Any

import pytest
import torch
from torch import nn

from hardneg.runtime import distributed
from hardneg.runtime.distributed import World, join
from hardneg.training import tracking


@pytest.mark.parametrize("names", [None, [], ["bias"]])
def test_a_module_that_is_shared_stays_on_its_own_device(monkeypatch, names):
    given: dict[str, Any] = {}

    class Wrapped(nn.Sequential):
        _set_params_and_buffers_to_ignore_for_model = staticmethod(lambda _, ignored: given.update(ignored=ignored))

        def __init__(self, module: nn.Module, **options: Any) -> None:
            given.update(options)
            super().__init__(module)

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", Wrapped)
    monkeypatch.setattr(tracking, "from_first", lambda asked: names)
    module = nn.Linear(1, 1)
    with tracking.shared(module) as alone:
        assert alone is module and given == {}
    monkeypatch.setattr(tracking, "world", lambda: World(1, 2, 1, 2))
    with tracking.shared(module) as wrapped:
        assert list(wrapped.children()) == [module]
    assert given == {"find_unused_parameters": names is None, "ignored": names or []}


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
