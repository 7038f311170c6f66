"""Losses from a teacher's scores, against hand-computed numbers and gradients."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from hardneg.formats.runs import strictly_decreasing
from hardneg.losses.listwise import KL
from hardneg.losses.pairwise import MarginMSE
from hardneg.protocols import Loss
from hardneg.records import ScoreBatch, TrainingError

NAN = math.nan


def batch_of(scores: list[list[float]], teacher: list[list[float]], valid: list[list[int]] | None = None) -> ScoreBatch:
    """Each row's positive is the column of its own number; all others count as its own negatives."""
    wide = torch.tensor(scores, dtype=torch.float64)
    positive = torch.arange(wide.shape[1])[None, :] == torch.arange(len(wide))[:, None]
    known = torch.tensor(valid or [[1] * wide.shape[1]] * len(wide), dtype=torch.bool)
    return ScoreBatch(wide, positive, ~positive, known, teacher=torch.tensor(teacher, dtype=torch.float64))


def learnt(loss: Loss, batch: ScoreBatch) -> tuple[float, Tensor]:
    scores = batch.scores.clone().requires_grad_()
    value = loss(replace(batch, scores=scores))
    value.backward()
    assert scores.grad is not None
    return value.item(), scores.grad


def test_margins_by_hand() -> None:
    """s margins 1 and 2, t margins 3 and 0.5: (2^2 + 1.5^2) / 2, gradients 2 (margin gap) / 2."""
    value, gradient = learnt(MarginMSE(), batch_of([[2, 1, 0]], [[4, 1, 3.5]]))
    assert value == pytest.approx((4 + 2.25) / 2)
    assert gradient[0].tolist() == pytest.approx([-2 + 1.5, 2, -1.5])


def test_margins_of_logits_are_not_those_of_probabilities() -> None:
    """Logits 8, 2 and 6, -4: margins 6 and 10. Sigmoids: .99966 - .88080 = .11887, .99753 - .01799 = .97954."""
    logits = [[8.0, 2.0], [6.0, -4.0]]
    assert learnt(MarginMSE(), batch_of(logits, logits))[0] == pytest.approx(0, abs=1e-12)
    sigmoids = [[1 / (1 + math.exp(-each)) for each in row] for row in logits]
    value, _ = learnt(MarginMSE(), batch_of(logits, sigmoids))
    by_hand = ((6 - 0.11887) ** 2 + (10 - 0.97954) ** 2) / 2
    assert value == pytest.approx(by_hand, abs=1e-3) and by_hand == pytest.approx(57.98, abs=0.005)
    assert learnt(MarginMSE(probabilities=True), batch_of(logits, sigmoids))[0] == pytest.approx(0, abs=1e-8)


def test_margins_of_a_batch_count_pairs_not_queries() -> None:
    batch = batch_of([[2, 1, 0], [0, 1, 5]], [[4, 1, 3.5], [NAN, 2, 1]])
    value, gradient = learnt(MarginMSE(), batch)
    assert value == pytest.approx((4 + 2.25 + 25) / 3)
    assert gradient[1].tolist() == pytest.approx([0, -10 / 3, 10 / 3])
    lost = batch_of([[2, 1, 0], [0, 1, 5]], [[4, 1, 3.5], [7, NAN, 1]])
    value, gradient = learnt(MarginMSE(), lost)
    assert value == pytest.approx((4 + 2.25) / 2) and not gradient[1].any()


def test_margins_of_scores_of_a_narrow_range() -> None:
    value, gradient = learnt(MarginMSE(temperature=0.1), batch_of([[0.2, 0.1]], [[4, 1]]))
    assert value == pytest.approx(4)
    assert gradient[0].tolist() == pytest.approx([-40, 40])


def test_divergence_by_hand() -> None:
    """Teacher 3/4 and 1/4, student 1/2 each: 3/4 ln(3/2) + 1/4 ln(1/2); gradient q - p."""
    value, gradient = learnt(KL(), batch_of([[5, 5]], [[math.log(3), 0]]))
    assert value == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert gradient[0].tolist() == pytest.approx([-0.25, 0.25])


def test_divergence_temperatures() -> None:
    halves = KL(temperature=0.5, teacher_temperature=2)
    value, gradient = learnt(halves, batch_of([[0, 0.5 * math.log(3)]], [[2 * math.log(3), 0]]))
    assert value == pytest.approx(0.75 * math.log(3) + 0.25 * math.log(1 / 3))
    assert gradient[0].tolist() == pytest.approx([2 * (0.25 - 0.75), 2 * (0.75 - 0.25)])


def test_divergence_over_what_was_scored_averaged_over_queries() -> None:
    scores, teacher = [[5, 5, 9], [1, 2, 3]], [[math.log(3), 0, NAN], [0, NAN, NAN]]
    value, gradient = learnt(KL(), batch_of(scores, teacher))
    assert value == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert gradient[0].tolist() == pytest.approx([-0.25, 0.25, 0]) and not gradient[1].any()
    known = batch_of(scores, [[math.log(3), 0, 7], [0, 1, 2]], [[1, 1, 0], [0, 1, 0]])
    assert learnt(KL(), known)[0] == pytest.approx(value)


def test_a_student_that_agrees_has_nothing_to_learn() -> None:
    shifted = batch_of([[3, 1, 0]], [[13, 11, 10]])
    for loss in (MarginMSE(), KL()):
        value, gradient = learnt(loss, shifted)
        assert value == pytest.approx(0, abs=1e-12) and not gradient.abs().gt(1e-12).any()


@pytest.mark.parametrize("loss", [MarginMSE(), KL()])
def test_without_a_single_score_nothing_is_learnt(loss: Loss) -> None:
    value, gradient = learnt(loss, batch_of([[2, 1]], [[NAN, NAN]]))
    assert value == 0 and not gradient.any()
    with pytest.raises(TrainingError, match="no teacher's scores: name a run as the stage's `teacher`"):
        loss(replace(batch_of([[2, 1]], [[0, 0]]), teacher=None))


def test_probabilities_are_turned_back_into_logits() -> None:
    """Logits ln 9 and -ln 3: the margin is ln 27; certainty is bounded."""
    batch = batch_of([[2, 1]], [[0.9, 0.25]])
    assert learnt(MarginMSE(probabilities=True), batch)[0] == pytest.approx((math.log(27) - 1) ** 2)
    odds = KL(probabilities=True)(batch).item()
    assert odds == pytest.approx(KL()(batch_of([[2, 1]], [[math.log(9), -math.log(3)]])).item())
    for loss in (MarginMSE(probabilities=True), KL(probabilities=True)):
        value, gradient = learnt(loss, batch_of([[2, 1, 0]], [[1, 0, NAN]]))
        assert math.isfinite(value) and gradient.isfinite().all() and not gradient[0, 2]
        with pytest.raises(TrainingError, match="are not probabilities: drop `probabilities`"):
            loss(batch_of([[2, 1]], [[1.5, 0]]))


@pytest.mark.parametrize("kind", [MarginMSE, KL])
def test_probabilities_may_lie_a_rounding_outside(kind: type[MarginMSE] | type[KL]) -> None:
    """A run keeps two scores of 0 apart by a step down, as it does all equal ones."""
    sure = strictly_decreasing(np.array([1, 0, 0], np.float32)).tolist()
    assert sure[1] == 0 > sure[2]
    loss = kind(probabilities=True)
    for stored in (sure, [1 + 5e-7, 0.0, -5e-7]):
        assert loss(batch_of([[2, 1, 0]], [stored])).item() == loss(batch_of([[2, 1, 0]], [[1, 0, 0]])).item()
    for beyond in (-1e-5, 1 + 1e-5):
        with pytest.raises(TrainingError, match="are not probabilities"):
            loss(batch_of([[2, 1]], [[0.5, beyond]]))


def test_rows_are_weighted() -> None:
    batch = batch_of([[2, 1], [0, 0]], [[4, 1], [5, 5]])
    weights = torch.tensor([3.0, 1.0], dtype=torch.float64)
    assert MarginMSE()(replace(batch, weights=weights)).item() == pytest.approx(3 * 4 / 4)
