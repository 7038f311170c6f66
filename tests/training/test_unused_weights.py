"""Which weights a pass reaches, told before several processes share them."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import TrainingError
from hardneg.training.methods.adore import QueryTower
from hardneg.training.methods.dual_encoder import TwoTowers
from hardneg.training.methods.reranker import PairTower
from hardneg.training.tracking import never_reached, unreached


class Ways(nn.Module):
    """Uses the first of two layers, and one of two heads."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.head, self.spare, self.both = nn.Linear(2, 1), nn.Linear(2, 1), both
        self.dropout = nn.Dropout(0.5)

    def trial(self) -> tuple[Tensor]:
        return (torch.ones(1, 2),)

    def forward(self, numbers: Tensor) -> tuple[Tensor, None]:
        for layer in self.layers if self.both else self.layers[:1]:
            numbers = self.dropout(layer(numbers))
        return self.head(numbers), None


def test_the_weights_of_what_is_not_used_are_named_and_nothing_is_drawn():
    module, before = Ways(both=True), torch.get_rng_state()
    assert never_reached(module) == ["spare.weight", "spare.bias"]
    assert torch.equal(torch.get_rng_state(), before) and module.training
    module.spare.requires_grad_(False)
    assert never_reached(module) == []


def test_a_layer_that_one_pass_went_by_may_be_reached_by_the_next():
    assert never_reached(Ways(both=False)) is None


def test_layers_that_are_skipped_by_chance_are_looked_for_at_each_step():
    module = Ways(both=True)
    module.layers.config = SimpleNamespace(layerdrop=0.1)  # type: ignore[assignment]
    assert never_reached(module) is None
    module.layers.config = SimpleNamespace(layerdrop=0.0)  # type: ignore[assignment]
    assert never_reached(module) == ["spare.weight", "spare.bias"]


def test_a_network_without_a_trial_is_not_judged():
    assert never_reached(nn.Linear(1, 1)) is None


def test_a_weight_that_gets_a_gradient_after_all_stops_the_training():
    module = Ways(both=True)
    with unreached(module, ["head.bias"]), pytest.raises(TrainingError, match=r"head\.bias; several processes cannot"):
        module(torch.ones(1, 2))[0].sum().backward()
    module(torch.ones(1, 2))[0].sum().backward()


def test_the_pooler_alone_is_not_reached_by_encoders(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    pooler = "module.0.model.pooler.dense."
    assert never_reached(TwoTowers(encoder)) == [f"{pooler}weight", f"{pooler}bias"]
    own = QueryTower(split(encoder))
    assert never_reached(own) == ["parts.0.model.pooler.dense.weight", "parts.0.model.pooler.dense.bias"]


def test_a_reranker_uses_all_of_its_weights(tiny_model):
    from hardneg.rerankers.network import PairNetwork, load_classifier

    assert never_reached(PairTower(PairNetwork(load_classifier(tiny_model, 24)))) == []
