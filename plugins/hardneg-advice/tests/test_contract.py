"""The package's analyses keep the contract, and ask for a model of the queries where none is known."""

from typing import ClassVar

import pytest
from hardneg_advice.hardness import Hardness
from hardneg_advice.miner_sweep import MinerSweep
from hardneg_advice.positive_ranks import PositiveRanks
from recipes.recipes import recipe_in
from stages.test_import_vectors import tree_of

from hardneg.records import RecipeError
from tests.analysis.small_files import OfSmallFiles


class TestHardness(OfSmallFiles):
    analysis = Hardness
    mapping: ClassVar = {"negatives": {"n": "negatives.arrow"}, "run": "a.trec"}


class TestMinerSweep(OfSmallFiles):
    analysis = MinerSweep
    mapping: ClassVar = {"run": "a.trec", "depths": [1, 2]}


class TestPositiveRanks(OfSmallFiles):
    analysis = PositiveRanks
    mapping: ClassVar = {"run": "a.trec"}


def test_an_analysis_asks_for_a_model_of_the_queries(tmp_path):
    tree = tree_of(tmp_path)
    asked = {"run": "test-run", "index": "given"}
    tree["stages"]["times"] = {"stage": "analyze", "analysis": {"miner-sweep": asked}}
    with pytest.raises(RecipeError, match=r"times\.analysis\.miner-sweep\.model: missing; no model is known"):
        recipe_in(tmp_path, tree)
