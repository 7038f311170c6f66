"""Groups of weights by depth, and the norms of their gradients."""

import pytest
import torch
from torch import nn
from toy import BagEncoder, options, toy_data

from hardneg.encoders.encoder import split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.pairwise import Star
from hardneg.records.layout import HISTORY
from hardneg.runtime.progress import Silent
from hardneg.training.checkpoint import History
from hardneg.training.methods.dual_encoder import train
from hardneg.training.step import gradient_norms, layer_groups


class Tower(nn.Module):
    """An embedding, layers of one weight each, a head."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1, 1)
        self.layers = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(layers))
        self.head = nn.Linear(1, 1)


def names(module: nn.Module) -> dict[str, list[str]]:
    known = {id(weights): name for name, weights in module.named_parameters()}
    return {group: [known[id(weights)] for weights in held] for group, held in layer_groups(module).items()}


def test_layers_are_split_in_thirds_between_embeddings_and_head():
    found = names(Tower(12))
    assert found["bottom"] == ["embedding.weight", *(f"layers.{i}.weight" for i in range(4))]
    assert found["middle"] == [f"layers.{i}.weight" for i in range(4, 8)]
    assert found["top"] == [*(f"layers.{i}.weight" for i in range(8, 12)), "head.weight", "head.bias"]


@pytest.mark.parametrize(("layers", "sizes"), [(2, [2, 0, 3]), (3, [2, 1, 3]), (4, [2, 2, 3]), (6, [3, 2, 4])])
def test_a_layer_goes_where_its_middle_lies(layers, sizes):
    found = names(Tower(layers))
    assert [len(found.get(group, [])) for group in ("bottom", "middle", "top")] == sizes


def test_each_side_of_a_twin_is_split_by_its_own_layers():
    found = names(nn.ModuleDict({"query": Tower(3), "document": Tower(3)}))
    sides = ("query", "document")
    assert found["bottom"] == [f"{side}.{name}.weight" for side in sides for name in ("embedding", "layers.0")]
    assert found["top"][-3:] == ["document.layers.2.weight", "document.head.weight", "document.head.bias"]


def test_without_layers_there_is_one_group_and_what_does_not_learn_or_has_its_own_rate_is_not_in_it():
    module = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    module[0].bias.requires_grad_(False)
    module[1].bias.factor = 2.0
    assert names(module) == {"all": ["0.weight", "1.weight"], "1.bias": ["1.bias"]}


def test_a_transformers_layers_are_found_in_both_forms_of_an_encoder(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    found, both = names(encoder.module), names(split(encoder).module)
    assert any("embeddings" in name for name in found["bottom"]) and any("layer" in name for name in found["top"])
    assert {group: 2 * len(held) for group, held in found.items()} == {group: len(held) for group, held in both.items()}


def test_the_norms_are_over_all_gradients_of_a_group_in_float32():
    module = Tower(3)
    gradients = {"embedding.weight": 3.0, "layers.0.weight": 4.0, "layers.1.weight": -2.0, "layers.2.weight": 1.0}
    gradients |= {"head.weight": 2.0, "head.bias": -2.0}
    for name, weights in module.named_parameters():
        weights.grad = torch.full_like(weights, gradients[name])
    assert gradient_norms(layer_groups(module)) == {"bottom": 5.0, "middle": 2.0, "top": 3.0}
    module.layers[1].weight.grad = None
    assert gradient_norms(layer_groups(module))["middle"] == 0.0
    half = nn.Linear(1024, 1, bias=False, dtype=torch.bfloat16)
    half.weight.grad = torch.full_like(half.weight, 1.0078125)  # the number after 1
    assert gradient_norms(layer_groups(half)) == {"all": pytest.approx(32 * 1.0078125, rel=1e-6)}


def test_a_training_notes_them_before_clipping(toy_folder, tmp_path):
    chosen = options(max_steps=3, accumulate=2, clip_norm=1e-3)
    train(BagEncoder(), toy_data(toy_folder), Star(), chosen, tmp_path, progress=Silent())  # type: ignore[arg-type]
    records = History(tmp_path / HISTORY).read()
    assert len(records) == 3
    for record in records:
        assert record["gradient_norms"] == {"all": pytest.approx(record["gradient_norm"], rel=1e-6)}
        assert record["gradient_norm"] > 1e-3
