"""Estimates of stages: what indexes take, and what an optimiser holds."""

from dataclasses import replace

from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.contract import BASE, Shape
from hardneg.encoders.spec import FullSpec
from hardneg.records.types import PluginSetting
from hardneg.stages.base import Sizes, encoding
from hardneg.stages.train import Train

_MODEL = FullSpec("tested", similarity="dot", query_length=10, document_length=100)
_VECTORS = Sizes(1_000_000, {}, _MODEL, BASE)


def test_an_index_of_a_million_documents_takes_its_vectors() -> None:
    assert encoding(None, _VECTORS).disk == 1_000_000 * (768 * 4 + 20)


def test_weights_take_a_number_a_term_twice_and_are_there_twice_for_a_moment() -> None:
    sizes = replace(_VECTORS, form="weights")
    assert encoding(None, sizes).disk == 1_000_000 * (2 * (120 * 4 * 2 + 8) + 20)


def test_token_vectors_take_one_a_token() -> None:
    sizes = replace(_VECTORS, form="token-vectors")
    assert encoding(None, sizes).disk == 1_000_000 * (60 * 768 * 4 + 20)


SIZES = Sizes(100, {"train": 50}, FullSpec("m"), Shape(hidden=100, layers=2, weights=4_000_000))


def test_an_adapter_has_few_weights_with_a_state() -> None:
    adapted = replace(SIZES, model=FullSpec("m", adapter=AdapterSpec(rank=4)))
    learning = 4 * 4 * 2 * 18 * 100  # float32, rank, layers, sizes of six pairs of matrices
    spec = Train(stage="train", loss=PluginSetting("infonce"), negatives="mined")
    whole, few = (spec.estimate(sizes) for sizes in (SIZES, adapted))
    assert whole.disk == 4 * 4_000_000 and few.disk == 4_000_000 + 3 * learning
