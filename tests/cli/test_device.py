"""`--device` is checked before anything else is done."""

import pytest
import torch
from cli.commands import every_command
from command_line import call

from hardneg.records import UsageError
from hardneg.runtime import check_device, known_devices


@pytest.fixture
def gpus(monkeypatch):
    """Gives this machine as many GPUs as asked for, as far as torch tells."""

    def give(count):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return give


@pytest.mark.parametrize(
    ("count", "device", "told"),
    [
        (0, "cuda", "finds no cuda device here; available: cpu"),
        (1, "cuda:7", "this machine has no cuda:7; available: cpu, cuda, cuda:0"),
        (2, "cdua", "no such device; did you mean 'cuda'?; available: cpu, cuda, cuda:0, cuda:1"),
        (0, "", "no such device"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are(gpus, count, device, told):
    gpus(count)
    with pytest.raises(UsageError) as refused:
        check_device(device)
    assert str(refused.value).startswith(f"device {device}: ") and told in str(refused.value)


def test_what_is_there_is_taken(gpus):
    gpus(2)
    for device in known_devices():
        check_device(device)
    assert known_devices() == ["cpu", "cuda", "cuda:0", "cuda:1"]


def test_every_command_that_computes_refuses_it_before_it_looks_at_anything_else(gpus, session):
    gpus(0)
    seen = 0
    for words, command in every_command().items():
        if "--device" not in {name for option in command.params for name in option.opts}:
            continue
        given = [word for option in command.params if option.required for word in _filled(option)]
        result = call(*words, *given, "--device", "cdua")
        assert isinstance(result.exception, UsageError) and "--device cdua" in str(result.exception), words
        seen += 1
    assert seen > 11
    assert not (session / "store").exists()


def _filled(option):
    given = "8" if option.opts[0] == "--dims" else "x.trec.gz"
    return ["x"] if option.param_type_name == "argument" else [option.opts[0], given]
