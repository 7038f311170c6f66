"""The plugins' contract as tests: `class TestMine(MinerTests): plugin = Mine()` in a file that pytest collects.

pytest is imported by none of this until a test runs. Each failure says which rule of the contract is broken.
"""

from hardneg.testing.datasets import DatasetTests, WriterTests
from hardneg.testing.encoders import EncoderTests, TrainableEncoderTests
from hardneg.testing.indexes import IndexTests
from hardneg.testing.mining import FilterTests, MinerTests
from hardneg.testing.plugin_contract import PluginTests, rule
from hardneg.testing.rerankers import RerankerTests, TrainableRerankerTests
from hardneg.testing.stages import AnalysisTests, StageTests
from hardneg.testing.training import LossTests

__all__ = [
    "AnalysisTests", "DatasetTests", "EncoderTests", "FilterTests", "IndexTests", "LossTests", "MinerTests",
    "PluginTests", "RerankerTests", "StageTests", "TrainableEncoderTests", "TrainableRerankerTests",
    "WriterTests", "rule",
]  # fmt: skip
