"""The FLOPS regularizer by hand, and by what is wrong with its options."""

import pytest
import torch

from hardneg.losses.flops import Flops, flops
from hardneg.records.errors import PluginError

WEIGHTS = torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 4.0, 1.0]])


def test_by_hand() -> None:
    """Means of 4/3, 4/3 and 1: 16/9 + 16/9 + 1; with the second text twice, means of 7/4, 1 and 3/4."""
    assert flops(WEIGHTS, torch.ones(3)).item() == pytest.approx(41 / 9)
    assert flops(WEIGHTS, torch.tensor([1, 2, 1])).item() == pytest.approx(49 / 16 + 1 + 9 / 16)


def test_a_threshold_leaves_short_texts_out_of_the_sum_but_not_of_the_number() -> None:
    """The second text has one term: means of 1/3, 4/3 and 1."""
    assert flops(WEIGHTS, torch.ones(3), 1).item() == pytest.approx(1 / 9 + 16 / 9 + 1)
    assert flops(WEIGHTS, torch.ones(3), 2).item() == 0


def test_the_gradient_is_twice_the_mean_over_the_number() -> None:
    asked = WEIGHTS.clone().requires_grad_()
    flops(asked, torch.ones(3)).backward()
    assert asked.grad is not None
    assert asked.grad[0].tolist() == pytest.approx([8 / 9, 8 / 9, 2 / 3])


@pytest.mark.parametrize(
    ("schedule", "shares"), [("quadratic", [0, 0.25, 1, 1]), ("linear", [0, 0.5, 1, 1]), ("constant", [1, 1, 1, 1])]
)
def test_weights_grow_over_the_first_part_of_training(schedule: str, shares: list[float]) -> None:
    plugin = Flops(2.0, 3.0, schedule, ramp=0.5)  # type: ignore[arg-type]
    whole = 2 * flops(WEIGHTS[:1], torch.ones(1)) + 3 * flops(WEIGHTS, torch.tensor([1, 2, 1]))
    for done, share in zip((0, 0.25, 0.5, 0.99), shares, strict=True):
        found = plugin(WEIGHTS[:1], WEIGHTS, torch.tensor([1, 2, 1]), done)
        assert found.item() == pytest.approx(share * whole.item())


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(PluginError, match=r"query_weight must be 0.*document_threshold.*-2; ramp must be above 0"):
        Flops(query_weight=-1, document_threshold=-2, ramp=0)


def test_counts_are_copies_and_gradients_are_derivatives() -> None:
    source = torch.Generator().manual_seed(3)
    queries, documents = (torch.rand(n, 6, generator=source, dtype=torch.float64) for n in (3, 4))
    counts, plugin = torch.tensor([1, 3, 1, 2]), Flops()
    copied = documents.repeat_interleave(counts, dim=0)
    once = plugin(queries, documents, counts, 0.9)
    assert once.item() == pytest.approx(plugin(queries.flip(0), copied, torch.ones(7, dtype=torch.int64), 0.9).item())
    inputs = (queries.requires_grad_(), documents.requires_grad_())
    assert torch.autograd.gradcheck(lambda q, d: plugin(q, d, counts, 0.9), inputs)
