"""Losses against hand-computed numbers, and what must hold for all of them."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from hardneg.losses.infonce import Hardest, InfoNCE, Nll
from hardneg.losses.pairwise import Bce, RankNet, Star
from hardneg.protocols import Loss
from hardneg.records import errors, types

LOSSES: list[Loss] = [RankNet(), RankNet(pairs="own"), RankNet(pairs="mined"), Nll()]
LOSSES += [InfoNCE(), InfoNCE(temperature=0.5, negatives="own")]
LOSSES += [Star(), Star(hard_pairs="own"), Star(alpha=0.1), Star(alpha=0.1, hard_pairs="own"), Hardest()]


def bools(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


def star_scores() -> Tensor:
    """Q=[[1,0],[0,1]] against D+=[[2,1],[0,3]] and H=[[1,2],[2,2]], columns p1 p2 h1 h2."""
    return torch.tensor([[2.0, 0.0, 1.0, 2.0], [1.0, 3.0, 2.0, 2.0]], dtype=torch.float64)


def star_batch(valid: list[list[int]] | None = None) -> types.ScoreBatch:
    return types.ScoreBatch(
        scores=star_scores(),
        positive=bools([[1, 0, 0, 0], [0, 1, 0, 0]]),
        own=bools([[0, 0, 1, 0], [0, 0, 0, 1]]),
        valid=bools(valid or [[1, 1, 1, 1], [1, 1, 1, 1]]),
    )


def pair_batch(positive: float, negative: float, dtype: torch.dtype = torch.float64) -> types.ScoreBatch:
    scores = torch.tensor([[positive, negative]], dtype=dtype)
    return types.ScoreBatch(scores, bools([[1, 0]]), bools([[0, 1]]), bools([[1, 1]]))


@pytest.mark.parametrize(
    ("loss", "batch", "expected"),
    [
        (Star(), star_batch(), 0.3144647109),
        (RankNet(), star_batch(), 0.3144647109),
        (Star(hard_pairs="own"), star_batch(), 0.2200948493),
        (Star(), star_batch([[1, 1, 1, 0], [1, 1, 1, 1]]), 0.2387282169),
        (Star(), star_batch([[1, 1, 0, 0], [1, 1, 0, 0]]), 0.1269280110),
        (InfoNCE(), star_batch(), 0.7720495853),
        (RankNet(pairs="own"), pair_batch(2, 1), 0.3132616875),
        (RankNet(pairs="mined"), star_batch(), (3 * math.log1p(math.exp(-1)) + math.log(2)) / 4),
        (InfoNCE(), pair_batch(2, 1), 0.3132616875),
        (InfoNCE(negatives="own"), pair_batch(700, 705), 5.0067153485),
        (RankNet(), pair_batch(700, 705), 5.0067153485),
        (InfoNCE(temperature=0.5), pair_batch(2, 1), math.log1p(math.exp(-2))),
        (RankNet(temperature=0.5), pair_batch(2, 1), math.log1p(math.exp(-2))),
        (Nll(), pair_batch(2, 1), 0.3132616875),
        (Nll(), pair_batch(700, 705), 5.0067153485),
        (Nll(), star_batch(), 0.3132616875),
        (Hardest(), pair_batch(700, 705), 5.0067153485),
        (Hardest(), star_batch(), (math.log(2) + math.log1p(math.exp(-1))) / 2),
        (Hardest(), star_batch([[1, 1, 1, 0], [1, 1, 1, 1]]), 0.3132616875),
    ],
)
def test_published_numbers(loss: Loss, batch: types.ScoreBatch, expected: float) -> None:
    assert loss(batch).item() == pytest.approx(expected, abs=1e-9)


def test_a_query_is_set_against_the_mined_documents_of_the_batch_and_not_against_its_positives() -> None:
    """Columns p1 p2 h: p2 was drawn for the first query, h for the second; p1 was drawn for none."""
    scores = torch.tensor([[2.0, 0.0, 1.0], [1.0, 3.0, 2.0]], dtype=torch.float64)
    batch = types.ScoreBatch(
        scores, bools([[1, 0, 0], [0, 1, 0]]), bools([[0, 1, 0], [0, 0, 1]]), bools([[1, 1, 1], [1, 1, 1]])
    )
    expected = (math.log1p(math.exp(0 - 2)) + math.log1p(math.exp(1 - 2)) + math.log1p(math.exp(2 - 3))) / 3
    assert RankNet(pairs="mined")(batch).item() == pytest.approx(expected, abs=1e-12)


def test_star_with_alpha_adds_a_tenth_of_the_random_part() -> None:
    def softplus(x: float) -> float:
        return math.log1p(math.exp(x))

    hard = (softplus(1 - 2) + softplus(2 - 3)) / 2
    random = (softplus(0 - 2) + softplus(2 - 2) + softplus(1 - 3) + softplus(2 - 3)) / 4
    in_batch = (softplus(0 - 2) + softplus(1 - 3)) / 2
    assert Star(alpha=0.1)(star_batch()).item() == pytest.approx(0.1 * random + hard, abs=1e-12)
    own = Star(alpha=0.1, hard_pairs="own")
    assert own(star_batch()).item() == pytest.approx(0.1 * in_batch + hard, abs=1e-12)


def test_star_pair_counts_of_the_paper() -> None:
    size = 256
    eye = torch.eye(size, dtype=torch.bool)
    none = torch.zeros(size, size, dtype=torch.bool)
    scores = torch.zeros(size, 2 * size, dtype=torch.float64, requires_grad=True)
    valid = torch.ones(size, 2 * size, dtype=torch.bool)
    batch = types.ScoreBatch(scores, torch.cat([eye, none], 1), torch.cat([none, eye], 1), valid)
    Star()(batch).backward()
    assert scores.grad is not None
    pairs = (scores.grad > 0).sum().item()
    assert pairs == 65_280 + 65_536
    assert scores.grad.max().item() == pytest.approx(0.5 / pairs)


def test_gradient_of_one_pair_is_the_sigmoid_of_the_difference() -> None:
    for loss in LOSSES:
        batch = pair_batch(2, 1)
        batch.scores.requires_grad_()
        loss(batch).backward()
        temperature = getattr(loss, "temperature", 1.0)
        slope = 1 / (1 + math.exp(1 / temperature)) / temperature
        assert batch.scores.grad is not None
        assert batch.scores.grad.tolist()[0] == pytest.approx([-slope, slope], abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_row_without_negatives_contributes_nothing(loss: Loss) -> None:
    both = star_batch([[1, 1, 1, 1], [0, 1, 0, 0]])
    alone = replace(both, weights=torch.tensor([1.0, 0.0]))
    assert loss(both).item() == pytest.approx(loss(alone).item(), abs=1e-12)
    assert loss(both).item() > 0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_only_the_ratios_of_weights_matter(loss: Loss) -> None:
    batch = star_batch()
    once = loss(replace(batch, weights=torch.tensor([1.0, 3.0])))
    twice = loss(replace(batch, weights=torch.tensor([2.0, 6.0])))
    assert once.item() == pytest.approx(twice.item(), abs=1e-12)
    assert loss(replace(batch, weights=torch.ones(2))).item() == pytest.approx(loss(batch).item(), abs=1e-12)


@st.composite
def batches(draw: st.DrawFn) -> types.ScoreBatch:
    rows, hard = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    seed = draw(st.integers(0, 1000))
    source = torch.Generator().manual_seed(seed)
    columns = rows * (1 + hard)
    scores = torch.randn(rows, columns, generator=source, dtype=torch.float64) * 5
    owner = torch.arange(columns) // (1 + hard)
    first = torch.arange(columns) % (1 + hard) == 0
    mine = owner[None, :] == torch.arange(rows)[:, None]
    valid = torch.rand(rows, columns, generator=source) > 0.3
    return types.ScoreBatch(scores, mine & first, mine & ~first, valid | (mine & first))


@settings(max_examples=40)
@given(batch=batches(), which=st.integers(0, len(LOSSES) - 1))
def test_masked_scores_get_no_gradient_and_positives_are_pushed_up(batch: types.ScoreBatch, which: int) -> None:
    batch.scores.requires_grad_()
    LOSSES[which](batch).backward()
    assert batch.scores.grad is not None
    assert not batch.scores.grad[~batch.valid].any()
    assert (batch.scores.grad[batch.positive] <= 0).all()
    assert (batch.scores.grad[~batch.positive] >= 0).all()


def test_ances_loss_of_one_negative_has_a_slope_of_at_most_one() -> None:
    for positive, negative, slope in ((2, 1, 1 / (1 + math.e)), (700, 705, 1 / (1 + math.exp(-5)))):
        batch = pair_batch(positive, negative)
        batch.scores.requires_grad_()
        Nll()(batch).backward()
        assert batch.scores.grad is not None
        assert batch.scores.grad.tolist()[0] == pytest.approx([-slope, slope], abs=1e-12)


def test_the_likelihood_of_several_own_negatives_is_a_softmax_without_the_others() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.0, 9.0]], dtype=torch.float64)
    batch = types.ScoreBatch(scores, bools([[1, 0, 0, 0]]), bools([[0, 1, 1, 0]]), bools([[1, 1, 1, 1]]))
    expected = math.log(math.e + math.e**2 + 1) - 1
    assert Nll()(batch).item() == pytest.approx(expected, abs=1e-12)


def test_the_hardest_document_alone_is_pushed_down_the_first_of_equal_ones() -> None:
    scores = torch.tensor([[1.0, 0.0, 3.0, 3.0, 9.0]], dtype=torch.float64, requires_grad=True)
    batch = types.ScoreBatch(scores, bools([[1, 0, 0, 0, 0]]), bools([[0, 1, 0, 0, 0]]), bools([[1, 1, 1, 1, 0]]))
    value = Hardest()(batch)
    value.backward()
    assert value.item() == pytest.approx(math.log1p(math.exp(2)), abs=1e-12)
    slope = 1 / (1 + math.exp(-2))
    assert scores.grad is not None
    assert scores.grad.tolist()[0] == pytest.approx([-slope, 0, slope, 0, 0], abs=1e-12)


def test_several_positives_in_a_row_make_all_pairs() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.0]], dtype=torch.float64)
    batch = types.ScoreBatch(scores, bools([[1, 1, 0]]), bools([[0, 0, 1]]), bools([[1, 1, 1]]))
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(-2))) / 2
    for loss in (RankNet(), InfoNCE()):
        assert loss(batch).item() == pytest.approx(expected, abs=1e-12)


def test_each_document_is_relevant_or_not() -> None:
    scores = torch.tensor([[0.0, 1.0, 5.0], [2.0, 0.0, 0.0], [3.0, 9.0, 9.0]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([[True, False, False]] * 3)
    valid = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    value = Bce()(types.ScoreBatch(scores, positive, ~positive, valid))
    # log 2 + log(1 + e) + log(1 + e^-2) + 2 log 2, over five; the third row has no negative
    assert float(value.detach()) == pytest.approx((0.693147181 * 3 + 1.313261688 + 0.126928011) / 5)
    value.backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([-0.1, 0.7310585786 / 5, 0.0])
    assert not scores.grad[2].any()


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(errors.PluginError, match="temperature must be above 0"):
        InfoNCE(temperature=0)
    for loss in (RankNet, Star, Nll, Hardest):
        with pytest.raises(errors.PluginError, match="temperature must be above 0"):
            loss(temperature=-1)
    with pytest.raises(errors.PluginError, match="alpha must be at least 0"):
        Star(alpha=-0.1)
