"""Weights in PyTorch's own files: a reader takes them as tensors, and refuses what holds more."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hardneg_reader.reader import Reader
from hardneg_reader.train_reader import ReaderSpec
from safetensors.torch import load_file
from tiny import tiny_encoder

from hardneg.records.errors import ModelError


class Code:
    """Makes a folder where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tiny_encoder(tmp_path / "model")
    torch.save(load_file(made / "model.safetensors"), made / "pytorch_model.bin")
    (made / "model.safetensors").unlink()
    return made


def test_they_are_read_as_tensors(folder: Path) -> None:
    read = Reader.load(ReaderSpec(str(folder), length=16), 0, "cpu").module.body.state_dict()
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    own = {name: value for name, value in read.items() if any(name.endswith(each) for each in weights)}
    assert own and all(
        torch.equal(value, next(weights[each] for each in weights if name.endswith(each)))
        for name, value in own.items()
    )


def test_code_in_them_is_refused_and_does_not_run(tmp_path: Path, folder: Path) -> None:
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.save({**weights, "code": Code(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model.bin: holds more than tensors.*take a copy .* in safetensors"):
        Reader.load(ReaderSpec(str(folder), length=16), 0, "cpu")
    assert not (tmp_path / "ran").exists()
