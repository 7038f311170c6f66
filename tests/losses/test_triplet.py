"""CoRT's loss against hand-computed numbers."""

from math import pi, sqrt

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from hardneg.losses.pairwise import Triplet, angular
from hardneg.records.errors import PluginError
from hardneg.records.types import ScoreBatch


def bools(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


def doubles(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def cosines() -> Tensor:
    """Queries (1, 0) and (0, 1) against positives (1, 1), (.5, 1) and negatives (1, 2), (1, 0)."""
    queries = doubles([1, 0], [0, 1])
    documents = doubles([1, 1], [0.5, 1], [1, 2], [1, 0])
    return (normalize(queries) @ normalize(documents).T).clone()


def batch(scores: Tensor, valid: list[list[int]] | None = None) -> ScoreBatch:
    everything = valid or [[1, 1, 1, 1], [1, 1, 1, 1]]
    positive, own = [[1, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]
    return ScoreBatch(scores, *map(bools, (positive, own, everything)))


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
    two = ScoreBatch(**{name: torch.block_diag(part, part).to(part.dtype) for name, part in parts.items()})
    assert Triplet()(two).item() == pytest.approx(0.9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_ends_of_the_cosine_have_finite_gradients(dtype: torch.dtype):
    scores = torch.tensor([[1.0, -1.0, 1.0, 1 + 2**-20], [-1.0, 1.0, 1 - 2**-23, 0.0]], dtype=dtype, requires_grad=True)
    value = Triplet(margin=1.0)(batch(scores))
    value.backward()
    assert scores.grad is not None and bool(value.isfinite()) and bool(scores.grad.isfinite().all())


@pytest.mark.parametrize("margin", [-0.1, 1.5, float("nan")])
def test_a_margin_is_one_of_scores(margin: float):
    with pytest.raises(PluginError, match="margin must be between 0 and 1"):
        Triplet(margin=margin)
