"""The package's analyses keep the contract."""

from typing import ClassVar

from hardneg_advice.hardness import Hardness
from hardneg_advice.positive_ranks import PositiveRanks

from tests.analysis.small_files import OfSmallFiles


class TestHardness(OfSmallFiles):
    analysis = Hardness
    mapping: ClassVar = {"negatives": {"n": "negatives.arrow"}, "run": "a.trec"}


class TestPositiveRanks(OfSmallFiles):
    analysis = PositiveRanks
    mapping: ClassVar = {"run": "a.trec"}
