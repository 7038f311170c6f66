"""Contract tests for plugins. Subclass them in a test file: `class TestMine(MinerTests): plugin = Mine()`.

pytest is not imported until a test runs. Each failure reports the rule of the contract that was broken.
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
