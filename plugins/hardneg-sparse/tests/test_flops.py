"""Tests of the FLOPS regularizer: numbers computed by hand, its contract, and invalid options."""

from pathlib import Path

import pytest
import torch
from hardneg_sparse.flops import Flops, flops
from tiny import tiny_sparse_encoder
from toy import write_toy

from hardneg.encoders.encoder import Encoder
from hardneg.losses.infonce import InfoNCE
from hardneg.records import EncodedBatch, PluginError
from hardneg.training.methods.dual_encoder import LossTerms
from tests.training import test_kinds

WEIGHTS = torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 4.0, 1.0]])


def test_by_hand() -> None:
    """The means are 4/3, 4/3 and 1, so the sum is 16/9 + 16/9 + 1; with the second text twice, 7/4, 1 and 3/4."""
    assert flops(WEIGHTS, torch.ones(3)).item() == pytest.approx(41 / 9)
    assert flops(WEIGHTS, torch.tensor([1, 2, 1])).item() == pytest.approx(49 / 16 + 1 + 9 / 16)


def test_a_threshold_leaves_short_texts_out_of_the_sum_but_not_of_the_number() -> None:
    """The second text has only one term, so the means are 1/3, 4/3 and 1."""
    assert flops(WEIGHTS, torch.ones(3), 1).item() == pytest.approx(1 / 9 + 16 / 9 + 1)
    assert flops(WEIGHTS, torch.ones(3), 2).item() == 0


@pytest.mark.parametrize(
    ("schedule", "shares"), [("quadratic", [0, 0.25, 1, 1]), ("linear", [0, 0.5, 1, 1]), ("constant", [1, 1, 1, 1])]
)
def test_weights_grow_over_the_first_part_of_training(schedule: str, shares: list[float]) -> None:
    plugin = Flops(2.0, 3.0, schedule, ramp=0.5)  # type: ignore[arg-type]
    whole = 2 * flops(WEIGHTS[:1], torch.ones(1)) + 3 * flops(WEIGHTS, torch.tensor([1, 2, 1]))
    for done, share in zip((0, 0.25, 0.5, 0.99), shares, strict=True):
        found = plugin(EncodedBatch(WEIGHTS[:1], WEIGHTS, torch.tensor([1, 2, 1]), done))
        assert found.item() == pytest.approx(share * whole.item())


def test_the_penalty_has_its_derivative_and_copies_count() -> None:
    draws = torch.Generator().manual_seed(3)
    queries, documents = (torch.rand(count, 6, generator=draws, dtype=torch.float64) for count in (3, 4))
    counts, penalty = torch.tensor([1, 3, 1, 2]), Flops(1.0, 2.0)
    inputs = queries.requires_grad_(), documents.requires_grad_()
    torch.autograd.gradcheck(lambda q, d: penalty(EncodedBatch(q, d, counts, 0.2)), inputs)
    copied = EncodedBatch(queries, documents.repeat_interleave(counts, 0), torch.ones(7, dtype=torch.int64), 0.2)
    assert penalty(copied).item() == pytest.approx(penalty(EncodedBatch(queries, documents, counts, 0.2)).item())


LAMBDAS = (0.05, 0.03)


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tiny_sparse_encoder(tmp_path_factory.mktemp("kinds") / "sparse")
    return test_kinds.learner_of(folder, {"query_length": 16, "document_length": 24})


def test_flops_is_in_their_splade_loss(encoder: Encoder, toy_folder: Path) -> None:
    penalty = Flops(*LAMBDAS, "constant", query_threshold=3, document_threshold=5)
    way = test_kinds.training(encoder, toy_folder, LossTerms({}, penalty), false_negative_mask=False)
    found = test_kinds.learnt(way, InfoNCE())
    thresholds = {"query_regularizer_threshold": 3, "document_regularizer_threshold": 5}
    theirs = test_kinds.their_loss(encoder, (LAMBDAS[1], LAMBDAS[0]), **thresholds)
    encoder.module.zero_grad()
    parts = theirs(test_kinds.columns(way))
    expected = sum(parts.values())
    expected.backward()
    assert parts["query_regularizer_loss"].item() > 0.001 < parts["document_regularizer_loss"].item()
    test_kinds.assert_same(found, (expected.item(), test_kinds.gradients(encoder)))


def test_gradient_caching_is_the_plain_batch(encoder: Encoder, toy_folder: Path) -> None:
    terms, loss = LossTerms({}, Flops(*LAMBDAS, "constant")), InfoNCE(temperature=0.1)
    ways = (test_kinds.training(encoder, toy_folder, terms, chunk=chunk) for chunk in (None, 2))
    plain, cached = (test_kinds.learnt(way, loss) for way in ways)
    test_kinds.assert_same(cached, plain)


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(PluginError, match=r"query_weight must be at least 0.*document_threshold.*-2; ramp must be"):
        Flops(query_weight=-1, document_threshold=-2, ramp=0)
