"""The contract of losses (`hardneg.protocols`) as tests."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.records import ScoreBatch
from hardneg.registry import needs_of
from hardneg.testing.plugin_contract import PluginTests, rule

if TYPE_CHECKING:
    from torch import Generator, Tensor

_MASKS = ("positive", "own", "valid")
_GUIDES = ("guide", "guide_query_query", "guide_document_document")
_OWN = ("query_query", "document_document")
_OPTIONAL = ("ranks", "teacher", "weights", *_GUIDES, *_OWN)
_MATRICES = ("scores", *_MASKS, "ranks", "teacher", "guide")
_OF_ROWS, _OF_COLUMNS = ("guide_query_query", "query_query"), ("guide_document_document", "document_document")


class LossTests(PluginTests):
    """Set `plugin`; its class names in `needs` the optional parts of a `ScoreBatch` that it cannot do without.

    `needs` here names more of them, for the tests alone. `scale` bounds the scores of ordinary batches: within it the
    loss must be differentiable. `stops_gradients`: it takes some scores as constants, such as the weights of others.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    scale: ClassVar[float] = 0.9
    stops_gradients: ClassVar[bool] = False

    def batch(self) -> ScoreBatch:
        """Four queries, four positives and eight mined documents; some cells are not valid. float64.

        A teacher has scored each query's own documents alone; a guide all, as the model has queries and documents with
        each other.
        """
        import torch

        source = torch.Generator().manual_seed(11)
        scores = (torch.rand(4, 12, generator=source, dtype=torch.float64) * 2 - 1) * self.scale
        row, column = torch.arange(4)[:, None], torch.arange(12)[None, :]
        positive, own = column == row, (column - 4) // 2 == row
        valid = ~((column == 3) & (row == 0) | (column == 5) & (row == 1) | (column == 11) & (row != 1))
        ranks = torch.where(own, column % 2 + 1 + row, 0)
        teacher = torch.rand(4, 12, generator=source, dtype=torch.float64) + positive * 2
        teacher = teacher.masked_fill(~(positive | own), torch.nan)
        parts = {"ranks": ranks, "teacher": teacher, "weights": torch.ones(4, dtype=torch.float64)}
        parts |= _with_each_other(source, self.scale)
        needs = {*self.needs, *needs_of(self.plugin)}
        optional = {name: part for name, part in parts.items() if name in needs}
        return ScoreBatch(scores, positive, own & ~positive, valid | positive, **optional)

    def _learn(self, folder: Path, batch: ScoreBatch) -> "tuple[Tensor, Tensor]":
        scores = batch.scores.detach().clone().requires_grad_()
        value = self.make(folder)(replace(batch, scores=scores))
        rule(tuple(value.shape) == (), "a loss is a scalar", f"shape {tuple(value.shape)}")
        rule(value.requires_grad, "a loss keeps the gradient's graph, also where it is zero")
        value.backward()
        gradient = scores.grad
        return value.detach(), scores.detach() * 0 if gradient is None else gradient

    def test_says_what_it_needs(self, tmp_path: Path) -> None:
        said = getattr(self.make(tmp_path), "needs", ())
        known = isinstance(said, tuple) and {*said} <= {*_OPTIONAL}
        rule(known, f"`needs` is a tuple of optional parts of a batch: {', '.join(_OPTIONAL)}", repr(said))

    def test_a_scalar_that_learns(self, tmp_path: Path) -> None:
        value, gradient = self._learn(tmp_path, self.batch())
        rule(bool(value.isfinite()), "a loss is finite", value)
        rule(bool(gradient.any()), "a batch with positives and negatives has a gradient")

    def test_optional_parts_may_be_there(self, tmp_path: Path) -> None:
        import torch

        batch = self.batch()
        wide = torch.ones_like(batch.scores)
        more = {"weights": wide[:, 0], "ranks": wide.long(), "teacher": wide}
        more |= _with_each_other(torch.Generator().manual_seed(3), self.scale)
        value, _ = self._learn(tmp_path, replace(batch, **{**more, **_there(batch, _OPTIONAL)}))
        rule(bool(value.isfinite()), "optional parts may be given to a loss that does not need them", value)

    def test_finite_for_scores_of_any_size(self, tmp_path: Path) -> None:
        batch = self.batch()
        for size in (1e4, -1e4, 1e2):
            extreme = (size - 2 * size * batch.positive).float(), (batch.scores * size / self.scale).float()
            for scores in (*extreme, *(each.bfloat16() for each in extreme)):
                value, gradient = self._learn(tmp_path, replace(batch, scores=scores))
                finite = bool(value.isfinite()) and bool(gradient.isfinite().all())
                rule(finite, "value and gradient are finite for scores of any size", f"{value} for ±{abs(size):g}")

    def test_bfloat16_scores(self, tmp_path: Path) -> None:
        scores = self.batch().scores.bfloat16()
        half, _ = self._learn(tmp_path, replace(self.batch(), scores=scores))
        rule(half.dtype.itemsize >= 4, "bfloat16 scores are computed with in 32 bits", f"a value of {half.dtype}")
        whole, _ = self._learn(tmp_path, replace(self.batch(), scores=scores.float()))
        near = abs(float(half) - float(whole)) <= 1e-3 * abs(float(whole)) + 1e-6
        rule(near, "bfloat16 scores are computed with in 32 bits", f"{float(half)} instead of {float(whole)}")

    def test_nothing_to_learn(self, tmp_path: Path) -> None:
        batch = self.batch()
        own = {name: part.new_full(part.shape, -inf) for name, part in _there(batch, _OWN).items()}
        value, gradient = self._learn(tmp_path, replace(batch, valid=batch.positive.clone(), **own))
        rule(float(value) == 0, "the loss is 0 where no row has a negative", float(value))
        rule(not bool(gradient.any()), "the gradient is 0 where no row has a negative")

    def test_masked_scores_do_not_count(self, tmp_path: Path) -> None:
        batch = self.batch()
        value, gradient = self._learn(tmp_path, batch)
        rule(not bool(gradient[~batch.valid].any()), "scores where `valid` is false get no gradient")
        changed = batch.scores.where(batch.valid, batch.scores + 50)
        other, _ = self._learn(tmp_path, replace(batch, scores=changed))
        rule(bool(value.isclose(other)), "scores where `valid` is false have no effect", f"{value}, {other}")

    def test_the_order_of_rows_and_columns_has_no_effect(self, tmp_path: Path) -> None:
        import torch

        batch = self.batch()
        source = torch.Generator().manual_seed(5)
        rows, columns = torch.randperm(4, generator=source), torch.randperm(12, generator=source)
        value, _ = self._learn(tmp_path, batch)
        for what, both, order in (("rows", _OF_ROWS, rows), ("columns", _OF_COLUMNS, columns)):
            turn = order if what == "rows" else (slice(None), order)
            moved = replace(batch, **{name: part[turn] for name, part in _there(batch, _MATRICES).items()})
            moved = replace(moved, **{name: part[order][:, order] for name, part in _there(batch, both).items()})
            if batch.weights is not None and what == "rows":
                moved = replace(moved, weights=batch.weights[rows])
            other, _ = self._learn(tmp_path, moved)
            rule(bool(torch.isclose(value, other)), f"the order of {what} has no effect", f"{value}, {other}")

    def test_the_gradient_is_the_derivative(self, tmp_path: Path) -> None:
        """Compare with finite differences in 64 bits; a loss that stops gradients differs."""
        import torch

        batch, loss = self.batch(), self.make(tmp_path)
        scores, result = batch.scores.clone().requires_grad_(), "the gradient is the derivative"
        try:
            torch.autograd.gradcheck(lambda values: loss(replace(batch, scores=values)), scores)
        except Exception as error:
            result = str(error)
        same = result == "the gradient is the derivative"
        rule(same or self.stops_gradients, "64-bit scores have the loss's derivative", result)
        rule(not (same and self.stops_gradients), "a loss that stops gradients has another than its derivative", result)

    def test_is_a_pure_function(self, tmp_path: Path) -> None:
        batch, loss = self.batch(), self.make(tmp_path)
        before = {name: getattr(batch, name).clone() for name in ("scores", *_MASKS)}
        first, second = float(loss(batch)), float(loss(batch))
        rule(first == second, "the same batch gives the same value", f"{first}, then {second}")
        changed = [name for name, part in before.items() if not bool((part == getattr(batch, name)).all())]
        rule(not changed, "a loss does not change its batch", changed)


def _there(batch: ScoreBatch, names: tuple[str, ...]) -> "dict[str, Tensor]":
    return {name: part for name in names if (part := getattr(batch, name)) is not None}


def _with_each_other(source: "Generator", scale: float) -> "dict[str, Tensor]":
    """A guide's scores of the 4 queries and 12 documents of `batch`, and the model's own; float64."""
    import torch

    def drawn(rows: int, columns: int) -> "Tensor":
        return (torch.rand(rows, columns, generator=source, dtype=torch.float64) * 2 - 1) * scale

    owner = torch.cat([torch.arange(4), torch.arange(8) // 2])
    same = {"query_query": torch.eye(4, dtype=torch.bool), "document_document": owner[:, None] == owner}
    guides = {"guide": drawn(4, 12), "guide_query_query": drawn(4, 4), "guide_document_document": drawn(12, 12)}
    return guides | {name: drawn(*mask.shape).masked_fill(mask, -torch.inf) for name, mask in same.items()}
