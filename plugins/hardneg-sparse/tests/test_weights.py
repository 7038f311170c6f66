"""Weights of terms: the largest logit of each, against sentence-transformers' own pooling, and their scores."""

from typing import Any

import numpy as np
import pytest
import torch
from hardneg_sparse.store import SparseRows
from hardneg_sparse.weights import TermWeights, _Largest, can_be_narrow
from torch import Tensor

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import forward
from hardneg.records import PluginSetting

TEXTS = ["a cat sat on the mat", "dogs", "", "the quick brown fox jumps over the lazy dog again and again"]


def wide(encoder: Encoder, features: dict[str, Tensor]) -> Tensor:
    return forward(encoder.parts("document"), features, encoder.device)["sentence_embedding"]


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_weights_and_gradients_are_those_of_the_whole_logits(activation, tiny_model):
    kind = PluginSetting("sparse", {"activation": activation})
    encoder = load_learner(ModelSpec(str(tiny_model), encoder=kind))
    assert can_be_narrow(encoder.parts("document"))
    with torch.no_grad():  # so that many terms are there
        encoder.parts("document")[0].model.get_output_embeddings().bias.normal_(0, 0.1)
    features = encoder.features(TEXTS, "document")
    ours, our_gradients = _learnt(encoder, lambda: encoder.embed(dict(features), "document"))
    theirs, their_gradients = _learnt(encoder, lambda: wide(encoder, dict(features)))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert (ours > 0).any(1).tolist() == [True] * 4 and our_gradients.keys() == their_gradients.keys()
    for name, gradient in our_gradients.items():
        scale = float(their_gradients[name].abs().max())
        torch.testing.assert_close(gradient, their_gradients[name], atol=1e-5 * max(1.0, scale), rtol=1e-5)


def _learnt(encoder: Encoder, run: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """What is made in training without dropout, and the gradients of a sum with fixed factors."""
    encoder.module.train()
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    encoder.module.zero_grad()
    made = run()
    (made * torch.linspace(-1, 1, made.numel()).view_as(made)).sum().backward()
    gradients = {name: w.grad.clone() for name, w in encoder.module.named_parameters() if w.grad is not None}
    return made.detach(), gradients


def test_a_gradient_goes_to_the_best_token_alone():
    """Logits of two tokens, the third is padding: [1, 3] and [2, -4] with biases 0 and 1; a factor of 2 and 10."""
    vectors = torch.tensor([[[1.0, 3.0], [2.0, -4.0], [9.0, 9.0]]], requires_grad=True)
    weight, bias = torch.eye(2, requires_grad=True), torch.tensor([0.0, 1.0], requires_grad=True)
    best = _Largest.apply(vectors, torch.tensor([[True, True, False]]), weight, bias)
    assert best.tolist() == [[2.0, 4.0]]
    (best * torch.tensor([2.0, 10.0])).sum().backward()
    assert vectors.grad is not None and vectors.grad.tolist() == [[[0, 10], [2, 0], [0, 0]]]
    assert weight.grad is not None and weight.grad.tolist() == [[4, -8], [10, 30]]
    assert bias.grad is not None and bias.grad.tolist() == [2, 10]


def test_other_poolings_and_networks_go_the_long_way(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("sparse", {"pooling": "sum"})))
    assert not can_be_narrow(encoder.parts("document"))
    parts = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("sparse"))).parts("document")
    parts[0].model.config.model_type = "deberta"
    assert not can_be_narrow(parts)


WEIGHTS = TermWeights(["a", "b", "c", "d"])
TENSOR = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.5, 0.25]])


def test_what_is_not_0_is_kept():
    rows = WEIGHTS.collect(TENSOR)
    assert rows.offsets.tolist() == [0, 2, 2, 5] and rows.width == 4
    assert rows.terms.tolist() == [1, 3, 0, 2, 3] and rows.weights.tolist() == [2, 1, 3, 0.5, 0.25]
    assert torch.equal(WEIGHTS.tensor(rows, torch.device("cpu")), TENSOR)


def test_the_largest_are_kept():
    rows = TermWeights(WEIGHTS.terms, most=2).collect(TENSOR)
    assert rows.terms.tolist() == [1, 3, 0, 2] and rows.offsets.tolist() == [0, 2, 2, 4]


def test_batches_in_any_order_become_texts_in_order():
    batches = [(np.array([2, 0]), TENSOR[[2, 0]]), (np.array([1]), TENSOR[[1]])]
    assert same(WEIGHTS.gathered(batches, 3, 4), WEIGHTS.collect(TENSOR))
    empty = WEIGHTS.gathered((), 0, 4)
    assert len(empty) == 0 and empty.width == 4


def test_scores_are_inner_products():
    queries = torch.tensor([[1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 2.0, 0.0]])
    assert WEIGHTS.score(queries, TENSOR, None).tolist() == [[4, 0, 3.5], [0, 0, 1]]
    assert WEIGHTS.score(queries, TENSOR, torch.tensor([2, 2, 0])).tolist() == [[3.5, 3.5, 4], [1, 1, 0]]
    lists = WEIGHTS.score_lists(queries.requires_grad_(), WEIGHTS.collect(TENSOR[[0, 1, 2, 0]]))
    assert lists.tolist() == [[4, 0], [1, 0]]
    lists[0].sum().backward()
    assert queries.grad is not None and queries.grad.tolist() == [[0, 2, 0, 1], [0, 0, 0, 0]]


def same(one: SparseRows, other: SparseRows) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("offsets", "terms", "weights"))
