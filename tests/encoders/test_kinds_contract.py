"""The built-in kinds of encoders keep the contract that plugins are tested by."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tiny import tiny_encoder, tiny_model2vec, tiny_static

from hardneg.encoders.families import Dense, Static
from hardneg.encoders.spec import ModelSpec
from hardneg.records import PluginSetting
from hardneg.testing import TrainableEncoderTests


class Kinds(TrainableEncoderTests):
    """written: makes the folder, once for each kind. name: of the kind, where the folder does not say it."""

    written: ClassVar[Callable[[Path], Path]]
    name: ClassVar[str | None] = None
    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _written(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = cls.written(tmp_path_factory.mktemp("kind") / "model")

    def model(self, folder: Path) -> ModelSpec:
        named = None if self.name is None else PluginSetting(self.name)
        return ModelSpec(str(self.folder), encoder=named)


class TestDense(Kinds):
    plugin = Dense()
    written = staticmethod(tiny_encoder)


class TestStatic(Kinds):
    plugin = Static()
    written = staticmethod(tiny_static)


class TestModel2Vec(Kinds):
    plugin = Static()
    written = staticmethod(tiny_model2vec)
    own_share = 0.1  # the mean of two numbers: most of the texts have the same direction


class TestStaticOfTransformer(Kinds):
    plugin = Static(dimensions=8)
    written = staticmethod(tiny_encoder)
    name = "static"

    def model(self, folder: Path) -> ModelSpec:
        return replace(super().model(folder), encoder=PluginSetting("static", {"dimensions": 8}))

    def others(self, folder: Path) -> Sequence[Any]:
        return [Static(dimensions=8, sif=None), Static(dimensions=4)]
