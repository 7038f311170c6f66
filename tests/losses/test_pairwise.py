"""LambdaLoss against hand-computed numbers, and its exact weight against MRR itself; CoRT's loss by hand."""

from math import pi, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from hardneg.losses.pairs import positive_scores
from hardneg.losses.pairwise import LambdaLoss, Triplet, angular
from hardneg.records import errors, types
from hardneg.registry import configure


def ranked(scores: list[float], labels: list[int], dtype: torch.dtype = torch.float64) -> types.ScoreBatch:
    """One query whose documents rank in the order given."""
    positive = torch.tensor([labels], dtype=torch.bool)
    values = torch.tensor([scores], dtype=dtype, requires_grad=True)
    ranks = torch.arange(1, len(scores) + 1)[None]
    return types.ScoreBatch(values, positive, ~positive, torch.ones_like(positive), ranks)


A1 = [3.0, 2.0, 1.0, 0.0], [0, 0, 1, 0]
A2 = [5.0, 4.0, 3.0, 2.0, 1.0], [0, 1, 0, 1, 0]
A3 = [3.0, 2.0, 1.0, -1.0], [0, 0, 0, 1]
VECTORS = {
    "A1": (A1, 4, 0.5543113653, [0.19573268, 0.04061437, -0.24381764, 0.0074706]),
    "A1b": (A1, 2, 0.9278529516, [0.29359903, 0.1218431, -0.41544212, 0]),
    "A2": (A2, 5, 0.5224932338, [0.17999331, -0.07076344, 0.01762419, -0.13146654, 0.00461247]),
    "A3": (A3, 3, 2.0838065358, [0.32733793, 0.15876235, 0.09786634, -0.58396663]),
    "A3b": (A3, 4, 1.3176677616, None),
    "A3c": (([3.0, 2.0, 1.0, -1.0, -2.0], [0, 0, 0, 1, 1]), 3, 2.3805676173, None),
}


@pytest.mark.parametrize("name", VECTORS)
def test_the_published_loss(name: str) -> None:
    (scores, labels), cut, value, gradient = VECTORS[name]
    batch = ranked(scores, labels)
    found = LambdaLoss(cut=cut)(batch)
    found.backward()
    assert found.item() == pytest.approx(value, abs=1e-9)
    assert batch.scores.grad is not None
    assert batch.scores.grad[0].tolist() == pytest.approx(by_hand(scores, labels, cut), abs=1e-9)
    if gradient is not None:
        assert batch.scores.grad[0].tolist() == pytest.approx(gradient, abs=1e-8)


def by_hand(scores: list[float], labels: list[int], cut: int) -> list[float]:
    """The gradient of the mean over pairs, pair by pair: each is weight times the sigmoid of the difference."""
    worth = [1 / rank if rank <= cut else 0.0 for rank in range(1, len(scores) + 1)]
    pairs = [(p, n) for p, y in enumerate(labels) for n, z in enumerate(labels) if y and not z]
    gradient = np.zeros(len(scores))
    for p, n in pairs:
        slope = abs(worth[p] - worth[n]) / (1 + np.exp(scores[p] - scores[n])) / len(pairs)
        gradient[n] += slope
        gradient[p] -= slope
    return gradient.tolist()


@pytest.mark.parametrize("options", [{}, {"cut": None}])
def test_without_a_cut_there_is_no_loss(options: dict[str, object]) -> None:
    with pytest.raises(errors.PluginError, match="lambda: cut is missing; set the rank cutoff"):
        configure("losses", types.PluginSetting("lambda", options))
    with pytest.raises(errors.PluginError, match="cut must be at least 1, not 0"):
        LambdaLoss(cut=0)
    with pytest.raises(errors.PluginError, match="temperature must be above 0, not 0"):
        LambdaLoss(cut=1, temperature=0)


def test_without_ranks_it_says_what_to_do() -> None:
    batch = ranked(*A1)
    bare = types.ScoreBatch(batch.scores, batch.positive, batch.own, batch.valid)
    with pytest.raises(errors.TrainingError, match="lambda: the batch has no ranks; use the train-queries stage"):
        LambdaLoss(cut=4)(bare)


def weight(loss: LambdaLoss, labels: list[int], positive: int, negative: int) -> float:
    """The weight of one pair, its places counted from 0."""
    batch = ranked([float(place) for place in range(len(labels))], labels)
    assert batch.ranks is not None
    place = positive_scores(batch.scores, batch)[0][0].tolist().index(positive)
    changes = loss._changes(batch.ranks, batch, torch.float64)
    return changes[0, place, negative].item()


@pytest.mark.parametrize(
    ("pair", "exact", "published"),
    [
        ((2, 1), 1 / 2, 1 / 2),
        ((2, 3), 1 / 6, 1 / 6),
        ((2, 5), 1 / 4, 3 / 10),
        ((4, 1), 1 / 2, 3 / 4),
        ((4, 3), 0, 1 / 12),
        ((4, 5), 0, 1 / 20),
    ],
)
def test_weights_of_two_positives(pair: tuple[int, int], exact: float, published: float) -> None:
    places = pair[0] - 1, pair[1] - 1
    assert weight(LambdaLoss(cut=5, weight="exact"), A2[1], *places) == pytest.approx(exact, abs=1e-12)
    assert weight(LambdaLoss(cut=5), A2[1], *places) == pytest.approx(published, abs=1e-12)


def reciprocal(labels: list[int], cut: int) -> float:
    return next((1 / rank for rank, y in enumerate(labels[:cut], 1) if y), 0.0)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 1), min_size=2, max_size=9).filter(lambda y: 0 < sum(y) < len(y)), st.integers(1, 10))
def test_the_exact_weight_is_the_change_of_the_metric(labels: list[int], cut: int) -> None:
    loss = LambdaLoss(cut=cut, weight="exact")
    for p in (i for i, y in enumerate(labels) if y):
        for n in (i for i, y in enumerate(labels) if not y):
            swapped = list(labels)
            swapped[p], swapped[n] = 0, 1
            change = abs(reciprocal(swapped, cut) - reciprocal(labels, cut))
            assert weight(loss, labels, p, n) == pytest.approx(change, abs=1e-12)


def test_the_sum_is_as_many_times_the_mean_as_there_are_pairs() -> None:
    mean, total = (LambdaLoss(cut=5, normalise=kind)(ranked(*A2)).item() for kind in ("mean", "sum"))
    assert total == pytest.approx(6 * mean)


def test_large_differences_stay_finite_in_32_bits() -> None:
    batch = ranked([1000.0, 500.0, 0.0], [0, 0, 1], torch.float32)
    value = LambdaLoss(cut=3)(batch)
    value.backward()
    assert value.item() == pytest.approx((1000 * 2 / 3 + 500 / 6) / 2)
    assert batch.scores.grad is not None
    assert torch.isfinite(batch.scores.grad).all()


def test_the_batch_is_the_mean_of_its_queries() -> None:
    def both(*parts: types.ScoreBatch) -> types.ScoreBatch:
        def joined(name: str) -> Tensor:
            return torch.cat([getattr(part, name) for part in parts])

        return types.ScoreBatch(*(joined(name) for name in ("scores", "positive", "own", "valid", "ranks")))

    first, second = ranked(*A1), ranked([0.0, 1.0, 2.0, 3.0], [1, 0, 0, 1])
    nothing = ranked([1.0, 1.0, 1.0, 1.0], [1, 1, 1, 1])
    loss = LambdaLoss(cut=4)
    expected = (loss(first).item() + loss(second).item()) / 2
    assert loss(both(first, second)).item() == pytest.approx(expected)
    assert loss(both(first, second, nothing)).item() == pytest.approx(expected)


def doubles(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def cosines() -> Tensor:
    """Queries (1, 0) and (0, 1) against positives (1, 1), (.5, 1) and negatives (1, 2), (1, 0)."""
    queries = doubles([1, 0], [0, 1])
    documents = doubles([1, 1], [0.5, 1], [1, 2], [1, 0])
    return (normalize(queries) @ normalize(documents).T).clone()


def batch(scores: Tensor, valid: list[list[int]] | None = None) -> types.ScoreBatch:
    everything = valid or [[1, 1, 1, 1], [1, 1, 1, 1]]
    positive, own = [[1, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]
    return types.ScoreBatch(scores, *torch.tensor([positive, own, everything]).bool())


def test_angular_scores():
    given = doubles([1, 1 / sqrt(2), 0.5, 0, -1])
    assert angular(given)[0].tolist() == pytest.approx([1, 0.75, 2 / 3, 0.5, 0])
    expected = [[0.75, 0.64758362, 0.64758362, 1], [0.75, 0.85241638, 0.85241638, 0.5]]
    assert torch.allclose(angular(cosines()), doubles(*expected), atol=1e-8)


def test_the_sum_over_the_batch():
    """Two pairs are within the margin: 1 - .75 + .1 for the first query, .1 for the second."""
    assert Triplet()(batch(cosines())).item() == pytest.approx(0.45)


def test_the_gradient_of_the_sum():
    """The derivative of 1 - arccos(c) / pi is 1 / (pi sqrt(1 - c^2)); the negative at a cosine of 1 has none."""
    scores = cosines().requires_grad_()
    Triplet()(batch(scores)).backward()
    at_45_degrees, at_26_degrees = sqrt(2) / pi, sqrt(5) / pi
    expected = doubles([-at_45_degrees, 0, 0, 0], [0, -at_26_degrees, at_26_degrees, 0])
    assert scores.grad is not None and torch.allclose(scores.grad, expected)


def test_a_known_positive_is_no_negative():
    """The second query's third document is as near as its own positive, and is one too: .1 less."""
    assert Triplet()(batch(cosines(), [[1, 1, 1, 1], [1, 1, 0, 1]])).item() == pytest.approx(0.35)


def test_a_sum_and_no_mean():
    one = batch(cosines())
    parts = {name: getattr(one, name) for name in ("scores", "positive", "own", "valid")}
    two = types.ScoreBatch(**{name: torch.block_diag(part, part).to(part.dtype) for name, part in parts.items()})
    assert Triplet()(two).item() == pytest.approx(0.9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_ends_of_the_cosine_have_finite_gradients(dtype: torch.dtype):
    scores = torch.tensor([[1.0, -1.0, 1.0, 1 + 2**-20], [-1.0, 1.0, 1 - 2**-23, 0.0]], dtype=dtype, requires_grad=True)
    value = Triplet(margin=1.0)(batch(scores))
    value.backward()
    assert scores.grad is not None and bool(value.isfinite()) and bool(scores.grad.isfinite().all())


@pytest.mark.parametrize("margin", [-0.1, 1.5, float("nan")])
def test_a_margin_is_one_of_scores(margin: float):
    with pytest.raises(errors.PluginError, match="margin must be between 0 and 1"):
        Triplet(margin=margin)
