"""Listwise losses and losses from a teacher's scores: by hand, and against those of sentence-transformers."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.cross_encoder import losses as published
from torch import Tensor

from hardneg.formats.runs import strictly_decreasing
from hardneg.losses.listwise import KL, AdrMse, ListMLE, ListNet
from hardneg.losses.pairwise import MarginMSE
from hardneg.protocols import Loss
from hardneg.records import ScoreBatch, TrainingError, errors, types


def listed(scores: Any, labels: Any = None) -> types.ScoreBatch:
    """Rows of a query's own documents, nan where a row is shorter; the first document is the positive."""
    scores = torch.as_tensor(scores, dtype=torch.float64)
    valid = scores.isfinite()
    positive = torch.zeros_like(valid)
    positive[:, 0] = True
    teacher = None if labels is None else torch.as_tensor(labels, dtype=torch.float64)
    return types.ScoreBatch(scores.nan_to_num(), positive, valid & ~positive, valid, teacher=teacher)


def test_by_hand() -> None:
    batch = listed([[1.0, 0.0, 0.0]])
    # ListNet: softmax(1, 0, 0) = (.5761, .2119, .2119) as labels and as scores
    assert float(ListNet()(batch)) == pytest.approx(-(0.576117 * -0.551445 + 2 * 0.211942 * -1.551445), abs=1e-5)
    # ListMLE: -log(e / (e + 2)) - log(1 / 2)
    assert float(ListMLE()(batch)) == pytest.approx(0.551445 + 0.693147, abs=1e-5)
    # ranks 1, 2.5, 2.5; approximately 1 + 2 sigmoid(-1) = 1.537883 and 1 + sigmoid(1) + 1/2 = 2.231059
    expected = (0.537883**2 / 1 + 2 * (2.5 - 2.231059) ** 2 / 1.807355) / 3
    assert float(AdrMse()(batch)) == pytest.approx(expected, abs=1e-5)


def theirs(name: str, scores: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
    """A loss of sentence-transformers on given scores: a model that has them ready for each pair."""
    rows = [[row.isfinite().sum()] for row in scores]
    flat = torch.cat([row[: int(count[0])] for row, count in zip(scores, rows, strict=True)])
    given = iter(flat.split(1))

    class Ready(torch.nn.Module):
        num_labels, device = 1, torch.device("cpu")

        def preprocess(self, pairs: Any, **_: Any) -> dict[str, Any]:
            return {"count": torch.tensor(len(pairs))}

        def forward(self, tokens: dict[str, Any]) -> dict[str, torch.Tensor]:
            return {"scores": torch.cat([next(given) for _ in range(int(tokens["count"]))])}

    loss = getattr(published, name)(Ready(), mini_batch_size=-1, **options)
    documents = [["text"] * int(count[0]) for count in rows]
    kept = [row[: int(count[0])].float() for row, count in zip(labels, rows, strict=True)]
    value: torch.Tensor = loss([["query"] * len(documents), documents], kept)
    return value


@pytest.mark.parametrize(
    ("loss", "name", "options"),
    [
        (ListNet, "ListNetLoss", {}),
        (ListMLE, "ListMLELoss", {"respect_input_order": False}),
        (AdrMse, "ADRMSELoss", {}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_and_gradients_are_those_of_sentence_transformers(loss: Any, name: str, options: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, 6, generator=generator)
    labels = torch.stack([torch.randperm(6, generator=generator) for _ in range(4)]).float()
    scores[1, 4:], labels[1, 4:] = torch.nan, torch.nan  # a shorter list
    ours, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    mask = scores.isfinite()
    batch = types.ScoreBatch(ours.nan_to_num(), mask & (torch.arange(6) == 0), mask, mask, teacher=labels)
    value = loss(labels="teacher")(batch)
    expected = theirs(name, other, labels, **options)
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    value.backward()
    expected.backward()
    assert ours.grad is not None and other.grad is not None
    torch.testing.assert_close(ours.grad[mask], other.grad[mask], atol=1e-5, rtol=1e-4)


def test_a_document_alone_teaches_nothing() -> None:
    for loss in (ListNet(), ListMLE(), AdrMse()):
        assert float(loss(listed([[3.0, torch.nan]]))) == 0.0


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(errors.PluginError, match="listnet: labels must be judged or teacher, not 'ranks'"):
        ListNet(labels="ranks")  # type: ignore[arg-type]
    with pytest.raises(errors.PluginError, match="adr-mse: alpha must be above 0"):
        AdrMse(alpha=0.0)
    with pytest.raises(errors.TrainingError, match="listmle: the batch has no teacher scores"):
        ListMLE(labels="teacher")(listed([[1.0, 2.0]]))


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
    with pytest.raises(TrainingError, match="no teacher scores; set the stage's `teacher` to a run"):
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
        with pytest.raises(TrainingError, match="are not probabilities; remove `probabilities`"):
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
