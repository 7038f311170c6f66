"""The plugins' contract as tests: `class TestMine(MinerTests): plugin = Mine()` in a file that pytest collects.

pytest is imported by none of this until a test runs. Each failure says which rule of the contract is broken.
"""

from hardneg.testing.data import DatasetTests, FilterTests, MinerTests, WriterTests
from hardneg.testing.encoders import EncoderTests, TrainableEncoderTests
from hardneg.testing.indexes import IndexTests
from hardneg.testing.plugins import AnalysisTests, PluginTests, StageTests, rule
from hardneg.testing.scoring import LossTests, RerankerTests, TrainableRerankerTests

__all__ = [
    "AnalysisTests", "DatasetTests", "EncoderTests", "FilterTests", "IndexTests", "LossTests", "MinerTests",
    "PluginTests", "RerankerTests", "StageTests", "TrainableEncoderTests", "TrainableRerankerTests",
    "WriterTests", "rule",
]  # fmt: skip
