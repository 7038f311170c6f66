"""The built-in rerankers keep the contract, and one that does not is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tiny import tiny_reranker

from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.testing import TrainableRerankerTests


class TestCrossEncoder(TrainableRerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder)), length=48)


class TestTwoOutputs(TrainableRerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder, 2)), length=48, activation="none")


@dataclass(frozen=True)
class Forgetful:
    """A head that another draw makes each time, and that no folder brings back.

    Args:
        source: the folder of a network.
    """

    version: ClassVar[int] = 1

    source: str

    def load(self, folder: Path | None) -> Any:
        return CrossEncoder(self.source, length=48, outputs=2, seed=torch.initial_seed()).load()

    def fingerprint(self) -> str:
        return "forgetful"


class Broken(TrainableRerankerTests):
    def make(self, folder: Path) -> Forgetful:
        return Forgetful(str(_source(folder)))


def test_a_network_that_is_another_each_time_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="always returns the same weights"):
        Broken().test_loads_the_same_network_each_time(tmp_path)
    with pytest.raises(AssertionError, match="returns the network that was saved there"):
        Broken().test_a_saved_network_comes_back(tmp_path)


def _source(folder: Path, outputs: int = 1) -> Path:
    source = folder / "network"
    return source if source.exists() else tiny_reranker(source, outputs=outputs)
