"""The built-in rerankers keep the contract."""

from pathlib import Path

from tiny import tiny_encoder

from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.testing import TrainableRerankerTests


class TestCrossEncoder(TrainableRerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder)), length=48)


class TestTwoOutputs(TrainableRerankerTests):
    tolerance = 1e-4

    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder)), length=48, activation="none", outputs=2)


def _source(folder: Path) -> Path:
    source = folder / "encoder"
    return source if source.exists() else tiny_encoder(source, kind="transformers")
