"""The contract of regularizers (`hardneg.registry.protocols.Regularizer`) as tests."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.records.types import EncodedBatch
from hardneg.testing.forms import FORMS
from hardneg.testing.plugin_contract import PluginTests, rule

if TYPE_CHECKING:
    from torch import Tensor

_QUERIES, _DOCUMENTS, _WIDTH, _TOKENS = 3, 4, 6, 2


class RegularizerTests(PluginTests):
    """Set `plugin`; override `batch` for a form with rules of its own."""

    def batch(self, folder: Path) -> EncodedBatch:
        """Three queries and four documents near the end of training, float64; a document counts up to three times."""
        import torch

        source = torch.Generator().manual_seed(3)
        tokens = (_TOKENS,) if type(self.make(folder)).form == "token-vectors" else ()
        queries, documents = (
            torch.rand(count, *tokens, _WIDTH, generator=source, dtype=torch.float64).sub(0.4).relu()
            for count in (_QUERIES, _DOCUMENTS)
        )
        if tokens:
            queries[..., -1] = documents[..., -1] = 1.0
        return EncodedBatch(queries, documents, torch.tensor([1, 3, 1, 2]), 0.9)

    def _learn(self, folder: Path, batch: EncodedBatch) -> "tuple[Tensor, Tensor, Tensor]":
        """The penalty, and its gradients to queries and documents."""
        import torch

        queries, documents = (part.detach().clone().requires_grad_() for part in (batch.queries, batch.documents))
        value = self.make(folder)(replace(batch, queries=queries, documents=documents))
        rule(tuple(value.shape) == (), "a penalty is a scalar", f"shape {tuple(value.shape)}")
        rule(value.requires_grad, "a penalty keeps the gradient's graph")
        gradients = torch.autograd.grad(value, (queries, documents), allow_unused=True, materialize_grads=True)
        return value.detach(), *gradients

    def test_says_what_it_is_for(self, tmp_path: Path) -> None:
        """Recipes whose encoder has another form are refused."""
        form = getattr(type(self.make(tmp_path)), "form", None)
        rule(form in FORMS, f"`form` is one of {', '.join(FORMS)}", repr(form))

    def test_a_penalty_that_learns(self, tmp_path: Path) -> None:
        """Finite, not below 0, with a gradient that is not zero."""
        import torch

        value, *gradients = self._learn(tmp_path, self.batch(tmp_path))
        rule(bool(torch.isfinite(value)) and float(value) >= 0, "a penalty is finite and not below 0", float(value))
        rule(any(bool(part.any()) for part in gradients), "a penalty has a gradient")

    def test_finite_for_weights_of_any_size(self, tmp_path: Path) -> None:
        """Up to 1e4, and all zero, in float32."""
        import torch

        batch = self.batch(tmp_path)
        for size in (0.0, 1e-6, 1e4):
            queries, documents = ((part * size).float() for part in (batch.queries, batch.documents))
            parts = self._learn(tmp_path, replace(batch, queries=queries, documents=documents))
            rule(all(bool(torch.isfinite(part).all()) for part in parts), "finite for weights of any size", size)

    def test_counts_are_copies(self, tmp_path: Path) -> None:
        """A document in three columns counts as three documents."""
        import torch

        batch = self.batch(tmp_path)
        copied = batch.documents.repeat_interleave(batch.counts, dim=0)
        value, gradient, _ = self._learn(tmp_path, batch)
        other = replace(batch, documents=copied, counts=torch.ones(len(copied), dtype=torch.int64))
        again, same, _ = self._learn(tmp_path, other)
        rule(bool(torch.isclose(value, again)), "counts are copies", f"{float(value)}, {float(again)} with copies")
        rule(bool(torch.allclose(gradient, same)), "counts are copies, for gradients too")

    def test_the_order_of_texts_has_no_effect(self, tmp_path: Path) -> None:
        """Batches are gathered from several processes in any order."""
        import torch

        batch = self.batch(tmp_path)
        turned = EncodedBatch(batch.queries.flip(0), batch.documents.flip(0), batch.counts.flip(0), batch.done)
        value, other = self._learn(tmp_path, batch)[0], self._learn(tmp_path, turned)[0]
        rule(bool(torch.isclose(value, other)), "the order of texts has no effect", f"{float(value)}, {float(other)}")

    def test_the_gradient_is_the_derivative(self, tmp_path: Path) -> None:
        """Compare with finite differences in 64 bits, away from weights of 0."""
        import torch

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
