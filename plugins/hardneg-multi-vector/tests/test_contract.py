"""The family of encoders and the indexes keep the contracts that plugins are tested by."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg_multi_vector.family import LateInteraction
from hardneg_multi_vector.indexes import MultiVector, MultiVectorPq, MultiVectorTwoStage
from hardneg_multi_vector.testing import TokenIndexTests
from tiny import tiny_encoder, tiny_multi_vector

from hardneg.encoders.spec import ModelSpec
from hardneg.records.types import PluginSetting
from tests.encoders.test_kinds_contract import Kinds


class TestExact(TokenIndexTests):
    plugin = MultiVector()


class TestTwoStageOfAll(TokenIndexTests):
    plugin = MultiVectorTwoStage(candidates=400)


class TestTwoStageByPooled(TokenIndexTests):
    plugin = MultiVectorTwoStage(candidates=60)
    exact = False
    recall = 0.9


class TestTwoStageByTokens(TokenIndexTests):
    plugin = MultiVectorTwoStage(candidates=60, by="tokens", nearest=100)
    exact = False
    recall = 0.9


class TestPq(TokenIndexTests):
    plugin = MultiVectorPq(subvectors=8, candidates=60)
    exact = False
    recall = 0.9


class TestMultiVector(Kinds):
    plugin = LateInteraction()
    written = staticmethod(tiny_multi_vector)

    def others(self, folder: Path) -> Sequence[Any]:
        return [LateInteraction(query_expansion=0), LateInteraction(skiplist="none"), LateInteraction(normalise=False)]


class TestMultiVectorOfTransformer(Kinds):
    plugin = LateInteraction(dimension=8)
    written = staticmethod(tiny_encoder)

    def model(self, folder: Path) -> ModelSpec:
        return replace(super().model(folder), encoder=PluginSetting("multi-vector", {"dimension": 8}))
