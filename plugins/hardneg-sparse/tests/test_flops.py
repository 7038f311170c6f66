"""The FLOPS regularizer by hand, against its contract, and by what is wrong with its options."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hardneg_sparse.flops import Flops, flops
from torch import Tensor

from hardneg.records.errors import PluginError
from hardneg.records.types import EncodedBatch
from hardneg.testing import PluginTests, rule

_TEXTS, _DOCUMENTS, _WIDTH = 3, 4, 6


class RegularizerTests(PluginTests):
    """The contract of a penalty on weights of terms; set `plugin`."""

    def batch(self, folder: Path) -> EncodedBatch:
        """Three queries and four documents near the end of training, float64; a document counts up to three times."""
        source = torch.Generator().manual_seed(3)
        queries, documents = (
            torch.rand(count, _WIDTH, generator=source, dtype=torch.float64).sub(0.4).relu()
            for count in (_TEXTS, _DOCUMENTS)
        )
        return EncodedBatch(queries, documents, torch.tensor([1, 3, 1, 2]), 0.9)

    def _learn(self, folder: Path, batch: EncodedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The penalty, and its gradients to queries and documents."""
        queries, documents = (part.detach().clone().requires_grad_() for part in (batch.queries, batch.documents))
        value = self.make(folder)(replace(batch, queries=queries, documents=documents))
        rule(tuple(value.shape) == (), "a penalty is a scalar", f"shape {tuple(value.shape)}")
        rule(value.requires_grad, "a penalty keeps the gradient's graph")
        gradients = torch.autograd.grad(value, (queries, documents), allow_unused=True, materialize_grads=True)
        return value.detach(), *gradients

    def test_a_penalty_that_learns(self, tmp_path: Path) -> None:
        """Finite, not below 0, with a gradient that is not zero."""
        value, *gradients = self._learn(tmp_path, self.batch(tmp_path))
        rule(bool(torch.isfinite(value)) and float(value) >= 0, "a penalty is finite and not below 0", float(value))
        rule(any(bool(part.any()) for part in gradients), "a penalty has a gradient")

    def test_finite_for_weights_of_any_size(self, tmp_path: Path) -> None:
        """Up to 1e4, and all zero, in float32."""
        batch = self.batch(tmp_path)
        for size in (0.0, 1e-6, 1e4):
            queries, documents = ((part * size).float() for part in (batch.queries, batch.documents))
            parts = self._learn(tmp_path, replace(batch, queries=queries, documents=documents))
            rule(all(bool(torch.isfinite(part).all()) for part in parts), "finite for weights of any size", size)

    def test_counts_are_copies(self, tmp_path: Path) -> None:
        """A document in three columns counts as three documents."""
        batch = self.batch(tmp_path)
        copied = batch.documents.repeat_interleave(batch.counts, dim=0)
        value, gradient, _ = self._learn(tmp_path, batch)
        other = replace(batch, documents=copied, counts=torch.ones(len(copied), dtype=torch.int64))
        again, same, _ = self._learn(tmp_path, other)
        rule(bool(torch.isclose(value, again)), "counts are copies", f"{float(value)}, {float(again)} with copies")
        rule(bool(torch.allclose(gradient, same)), "counts are copies, for gradients too")

    def test_the_order_of_texts_has_no_effect(self, tmp_path: Path) -> None:
        """Batches are gathered from several processes in any order."""
        batch = self.batch(tmp_path)
        turned = EncodedBatch(batch.queries.flip(0), batch.documents.flip(0), batch.counts.flip(0), batch.done)
        value, other = self._learn(tmp_path, batch)[0], self._learn(tmp_path, turned)[0]
        rule(bool(torch.isclose(value, other)), "the order of texts has no effect", f"{float(value)}, {float(other)}")

    def test_the_gradient_is_the_derivative(self, tmp_path: Path) -> None:
        """Compare with finite differences in 64 bits, away from weights of 0."""
        batch, penalty = self.batch(tmp_path), self.make(tmp_path)
        inputs = [(part + 0.1).requires_grad_() for part in (batch.queries, batch.documents)]
        try:
            torch.autograd.gradcheck(lambda q, d: penalty(replace(batch, queries=q, documents=d)), inputs)
        except Exception as error:
            raise AssertionError(f"broken rule: 64-bit weights have the derivative\n  found: {error}") from error

    def test_is_a_pure_function(self, tmp_path: Path) -> None:
        """A second call has the same value, and the batch is unchanged."""
        batch = self.batch(tmp_path)
        before = batch.documents.clone()
        first, second = (float(self._learn(tmp_path, batch)[0]) for _ in range(2))
        rule(first == second, "the same batch gives the same value", f"{first}, then {second}")
        rule(bool((before == batch.documents).all()), "a regularizer does not change its batch")


class TestFlops(RegularizerTests):
    plugin = Flops()


class TestFlopsOfDocuments(RegularizerTests):
    plugin = Flops(query_weight=0, document_weight=1, schedule="constant", document_threshold=2)


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
        found = plugin(EncodedBatch(WEIGHTS[:1], WEIGHTS, torch.tensor([1, 2, 1]), done))
        assert found.item() == pytest.approx(share * whole.item())


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(PluginError, match=r"query_weight must be 0.*document_threshold.*-2; ramp must be above 0"):
        Flops(query_weight=-1, document_threshold=-2, ramp=0)
