"""Passes by length."""

import pytest
import torch

from hardneg.runtime import World
from hardneg.training import batches
from hardneg.training.batches import in_parts, own_share


def test_the_order_is_that_of_the_features_and_no_pass_is_padded_more_than_its_longest_text() -> None:
    seen = []

    def embed(features: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(features["input_ids"].tolist())

        summed = (features["input_ids"] * features["attention_mask"]).sum(1, keepdim=True)
        return summed + features["prompt_length"][:, None]

    ids = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 7], [8, 9, 1, 0], [2, 0, 0, 0]])
    features = {"input_ids": ids, "attention_mask": (ids > 0).long(), "prompt_length": torch.full((5,), 100)}
    assert in_parts(features, 2).through(embed).flatten().tolist() == [103, 103, 122, 118, 102]
    assert seen == [[[4, 5, 6, 7], [8, 9, 1, 0]], [[1, 2], [3, 0]], [[2]]]


def test_padding_on_the_left_is_cut_too() -> None:
    ids = torch.tensor([[0, 0, 1], [0, 2, 3], [4, 5, 6]])
    widths = []

    def embed(features: dict[str, torch.Tensor]) -> torch.Tensor:
        widths.append(features["input_ids"].shape[1])
        return features["input_ids"][:, -1:]

    parts = in_parts({"input_ids": ids, "attention_mask": (ids > 0).long()}, 1)
    assert parts.through(embed).flatten().tolist() == [1, 3, 6]
    assert widths == [3, 2, 1]


def test_gradients_come_back_in_order() -> None:
    weights = torch.arange(1.0, 4.0).requires_grad_()
    ids = torch.tensor([[1, 0], [2, 1], [0, 0]])
    features = {"input_ids": ids, "attention_mask": torch.tensor([[1, 0], [1, 1], [1, 0]])}
    vectors = in_parts(features, 1).through(lambda part: weights[part["input_ids"][:, :1]])
    (vectors.flatten() * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [100.0, 1.0, 10.0]


@pytest.mark.parametrize(
    ("total", "shares"), [(2, [(0, 1), (0, 1), (1, 2), (1, 2)]), (9, [(0, 2), (2, 4), (4, 6), (6, 9)])]
)
def test_each_of_four_processes_has_one_thing_at_least(
    total: int, shares: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, share in enumerate(shares):
        monkeypatch.setattr(batches, "world", lambda rank=rank: World(rank, 4))
        assert own_share(total) == slice(*share)
