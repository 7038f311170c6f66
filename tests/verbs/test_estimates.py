"""Estimates of trainings: what learns decides what the optimiser holds."""

from dataclasses import replace

from hardneg.costs.machine import Machine
from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.configuration import Shape
from hardneg.encoders.spec import FullSpec
from hardneg.records.types import PluginSetting
from hardneg.verbs.shared.stage_spec import Sizes
from hardneg.verbs.shared.training_common import encoder_training, learning_bytes
from hardneg.verbs.train import Train

SIZES = Sizes(100, {"train": 50}, FullSpec("m"), Shape(hidden=100, layers=2, weights=4_000_000), Machine())


def test_an_adapter_has_few_weights_with_a_state() -> None:
    adapted = replace(SIZES, model=FullSpec("m", adapter=AdapterSpec(rank=4)))
    assert learning_bytes(SIZES) == 4_000_000
    assert learning_bytes(adapted) == 4 * 4 * 2 * 18 * 100  # float32, rank, layers, sizes of six pairs of matrices
    spec = Train(stage="train", loss=PluginSetting("infonce"), negatives="mined")
    whole, few = (encoder_training(spec, sizes) for sizes in (SIZES, adapted))
    assert whole.held - few.held == 3 * (4_000_000 - 57_600)
    assert whole.disk == 4 * 4_000_000 and few.disk == 4_000_000 + 3 * 57_600
