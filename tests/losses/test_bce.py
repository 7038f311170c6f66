"""Pointwise losses, by numbers and by the kit."""

import pytest
import torch

from hardneg.losses.pairwise import Bce, TwoClass
from hardneg.records import ScoreBatch
from hardneg.testing import LossTests


class TestBce(LossTests):
    plugin = Bce()


class TestTwoClass(LossTests):
    plugin = TwoClass()


def test_each_document_is_relevant_or_not() -> None:
    scores = torch.tensor([[0.0, 1.0, 5.0], [2.0, 0.0, 0.0], [3.0, 9.0, 9.0]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([[True, False, False]] * 3)
    valid = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    value = Bce()(ScoreBatch(scores, positive, ~positive, valid))
    # log 2 + log(1 + e) + log(1 + e^-2) + 2 log 2, over five; the third row has no negative
    assert float(value.detach()) == pytest.approx((0.693147181 * 3 + 1.313261688 + 0.126928011) / 5)
    value.backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([-0.1, 0.7310585786 / 5, 0.0])
    assert not scores.grad[2].any()
