"""The family and the indexes against the kit that authors of plugins use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hardneg_sparse.exact import Sparse
from hardneg_sparse.family import Splade
from hardneg_sparse.impact import Impact
from hardneg_sparse.testing import WeightEncoderTests, WeightIndexTests
from tiny import tiny_encoder, tiny_sparse_encoder

from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError, PluginSetting
from tests.encoders import test_pinned_models as pinned


class Weights(WeightEncoderTests):
    """written: makes the folder, once a class. options: those of the family, where the folder does not declare it."""

    own_share = 0.1  # inner products: a text of more terms is nearer
    written: ClassVar[Callable[[Path], Path]] = staticmethod(tiny_sparse_encoder)
    options: ClassVar[dict[str, Any] | None] = None
    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _written(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = cls.written(tmp_path_factory.mktemp("kind") / "model")

    def model(self, folder: Path) -> ModelSpec:
        named = None if self.options is None else PluginSetting("sparse", self.options)
        return ModelSpec(str(self.folder), encoder=named)


class TestSparseEncoder(Weights):
    plugin = Splade()

    def others(self, folder: Path) -> Sequence[Any]:
        return [Splade(pooling="sum"), Splade(activation="log1p_relu"), Splade(max_terms=3)]


class TestOfTransformer(Weights):
    plugin = Splade()
    written = staticmethod(tiny_encoder)
    options: ClassVar[dict[str, Any] | None] = {}


class TestOfQueryTerms(Weights):
    plugin = Splade(queries="terms")
    options: ClassVar[dict[str, Any] | None] = {"queries": "terms"}


class TestExactIndex(WeightIndexTests):
    plugin = Sparse()


@pytest.mark.slow
@pytest.mark.usefixtures("started_java")
class TestImpactIndex(WeightIndexTests):
    """The weights are whole numbers, so none is rounded; documents of equal scores may change places at the end."""

    plugin = Impact(scale=1)
    exact = False
    recall = 1.0


def test_options_that_a_folder_declares_wrongly(tmp_path: Path) -> None:
    from hardneg.encoders.open.resolved import load_learner

    folder = tiny_encoder(tmp_path / "model")
    pinned.edited(folder, pinned.ST, model_type="SparseEncoder")
    with pytest.raises(ModelError, match="only SpladePooling is known"):
        load_learner(ModelSpec(str(folder)), "cpu")
