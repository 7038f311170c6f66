"""LAMB against published numbers, the groups without weight decay, and the schedule's corner points."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from hardneg.training.options import TrainOptions
from hardneg.training.step import Lamb, make_optimizer, schedule_factor


@pytest.mark.parametrize(
    ("weights", "step", "trust"),
    [([3.0, 4.0], [3.19226766, -3.12227266], 1.1197384255), ([30.0, 40.0], [3.46226766, -2.76227266], 2.257765068)],
)
def test_lamb_takes_the_published_first_step(weights: list[float], step: list[float], trust: float) -> None:
    tensor = nn.Parameter(torch.tensor(weights, dtype=torch.float64))
    tensor.grad = torch.tensor([0.1, -0.2], dtype=torch.float64)
    Lamb([tensor], lr=1e-4, weight_decay=0.01, eps=1e-8).step()
    expected = [value - 1e-4 * trust * part for value, part in zip(weights, step, strict=True)]
    assert tensor.tolist() == pytest.approx(expected, abs=1e-8)
    if weights[0] == 3:
        assert tensor.tolist() == pytest.approx([2.99964255, 4.00034961], abs=1e-8)


def test_lamb_leaves_zero_weights_finite_and_moves_them() -> None:
    tensor = nn.Parameter(torch.zeros(2))
    tensor.grad = torch.tensor([1.0, -1.0])
    Lamb([tensor], lr=0.1).step()
    assert torch.isfinite(tensor).all()
    assert tensor[0] < 0 < tensor[1]


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.LayerNorm = nn.LayerNorm(2)
        self.frozen = nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.tied = nn.Linear(3, 2)
        self.tied.weight = self.linear.weight


def test_biases_and_layer_norms_do_not_decay() -> None:
    head = Head()
    made = make_optimizer(head, TrainOptions(weight_decay=0.3))
    decayed, free = (group["params"] for group in made.param_groups)
    assert [id(weights) for weights in decayed] == [id(head.linear.weight)]
    exempt = (head.linear.bias, head.LayerNorm.weight, head.LayerNorm.bias, head.tied.bias)
    assert {id(weights) for weights in free} == {id(weights) for weights in exempt}
    assert isinstance(made, torch.optim.AdamW)
    assert [group["weight_decay"] for group in made.param_groups] == [0.3, 0.0]
    assert isinstance(make_optimizer(head, TrainOptions(optimizer="lamb")), Lamb)


def rates(steps: Iterable[int], total: int, **options: Any) -> list[float]:
    return [schedule_factor(step, total, TrainOptions(**options)) for step in steps]


def test_the_learning_rate_rises_and_falls() -> None:
    assert rates(range(7), 6, warmup_steps=2) == pytest.approx([1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25, 0])
    cosine = rates(range(2, 7), 6, warmup_steps=2, decay="cosine")
    assert cosine == pytest.approx([1, 0.8535534, 0.5, 0.1464466, 0])
    assert rates(range(4), 3, warmup_steps=1, decay="constant") == [0.5, 1, 1, 1]
    assert rates([5], 5, warmup_steps=5) == [0] and rates([0], 1, warmup_steps=0) == [1]


def test_the_learning_rate_of_the_papers_programs() -> None:
    """Steps 0, 1, W, W + 1 and S for W = 4 and S = 20: s / W and (S - s) / (S - W), of transformers' schedule."""
    steps, program = [0, 1, 4, 5, 20], {"warmup_steps": 4, "warmup_from_zero": True}
    assert rates(steps, 20, **program) == pytest.approx([0, 1 / 4, 1, 15 / 16, 0])
    theirs = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_linear_schedule_with_warmup(theirs, 4, 20)
    for step, rate in enumerate(rates(range(21), 20, **program)):
        assert rate == pytest.approx(schedule.get_last_lr()[0]), step
        theirs.step()
        schedule.step()
    assert rates(steps, 20, warmup_steps=4) == pytest.approx([1 / 5, 2 / 5, 1, 15 / 16, 0])
    assert rates([0, 1], 20, warmup_steps=0, warmup_from_zero=True) == pytest.approx([1, 19 / 20])


def test_the_learning_rate_of_rocketqas_program() -> None:
    """s / W, then 1 - s / S: at the end of the warm-up it falls from 3/4 to 16/20 of the peak, not to the peak."""
    program = {"warmup_steps": 4, "warmup_from_zero": True, "decay_from_start": True}
    assert rates([0, 1, 3, 4, 5, 20], 20, **program) == pytest.approx([0, 1 / 4, 3 / 4, 16 / 20, 15 / 20, 0])
    cosine = rates([4, 10, 20], 20, warmup_steps=4, decay="cosine", decay_from_start=True)
    assert cosine == pytest.approx([0.9045085, 0.5, 0])
    assert TrainOptions(decay="constant", decay_from_start=True).problems() == [
        "decay_from_start goes with decay linear or cosine: leave decay_from_start out"
    ]


def test_rates_of_programs_count_where_they_are_asked_for() -> None:
    known = TrainOptions().identity()
    assert not {"warmup_from_zero", "decay_from_start"} & {*known}
    assert TrainOptions(warmup_from_zero=True).identity() == {**known, "warmup_from_zero": True}


def test_warm_up_in_steps_goes_before_its_ratio() -> None:
    assert schedule_factor(9, 95, TrainOptions()) == 10 / 11 and schedule_factor(10, 95, TrainOptions()) == 1
    assert schedule_factor(2, 95, TrainOptions(warmup_steps=3)) == 3 / 4
    assert schedule_factor(0, 95, TrainOptions(warmup_steps=0)) == 1


def test_steps_are_full_batches() -> None:
    assert TrainOptions(batch_size=8, epochs=1).total_steps(20) == 3
    assert TrainOptions(batch_size=8, epochs=0.5, accumulate=2).total_steps(64) == 2
    assert TrainOptions(max_steps=7).total_steps(20) == 7


def test_options_that_make_no_sense_are_all_named() -> None:
    assert TrainOptions().problems() == []
    found = TrainOptions(batch_size=0, learning_rate=0, warmup_ratio=2, epochs=None).problems()
    assert [line.split()[0] for line in found] == ["batch_size", "learning_rate", "warmup_ratio", "give"]


def test_how_negatives_are_drawn_needs_some_that_are() -> None:
    assert TrainOptions(negatives_per_query=0).problems() == []
    for more in ({"negatives_per_query": 0}, {"iterate_negatives": True}):
        (problem,) = TrainOptions(negatives_drawn="margin_bins", **more).problems()
        assert problem.startswith("negatives_drawn: nothing is drawn by iterate_negatives, or for 0")


def test_identity_leaves_out_what_cannot_change_the_weights() -> None:
    first = TrainOptions(checkpoint_every=1, gradient_checkpointing=True)
    assert first.identity() == TrainOptions().identity()
    assert first.identity() != TrainOptions(seed=1).identity()


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_epsilon_counts_where_moments_are_small(name: Any) -> None:
    """With a gradient as small as epsilon, a first step of Adam is half as long: g / (g + epsilon)."""
    layer, moved = nn.Linear(1, 1, bias=False), {}
    for epsilon in (1e-12, 1e-3):
        with torch.no_grad():
            layer.weight.fill_(1.0)
        options = TrainOptions(optimizer=name, learning_rate=0.1, weight_decay=0.0, epsilon=epsilon)
        optimizer = make_optimizer(layer, options)
        layer.weight.grad = torch.full((1, 1), 1e-3)
        optimizer.step()
        moved[epsilon] = 1.0 - layer.weight.item()
    assert moved[1e-12] == pytest.approx(0.1, rel=1e-3)
    assert moved[1e-3] == pytest.approx(0.05 if name == "adamw" else 0.1, rel=1e-3)
    assert "epsilon" not in TrainOptions().identity() and TrainOptions(epsilon=1e-6).identity()["epsilon"] == 1e-6
