"""The built-in rerankers keep the contract."""

from pathlib import Path

from tiny import tiny_encoder

from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.testing import RerankerTests


class TestCrossEncoder(RerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        source = folder / "encoder"
        return CrossEncoder(str(source if source.exists() else tiny_encoder(source)), length=48)
