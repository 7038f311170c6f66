"""The terms of a batch's loss: masks, the loss at several sizes and precisions of vectors, a penalty."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

import torch
from torch import Tensor

from hardneg.encoders.encoder import Encoder
from hardneg.protocols import Regularizer
from hardneg.records import EncodedBatch, ScoreBatch, StoredPrecision, UsageError
from hardneg.registry import needs_of
from hardneg.store import digest, plugin_identity
from hardneg.training.masks import WITH_EACH_OTHER, GuidedMask, self_masked

Change = Callable[[Tensor], Tensor]
"""Truncates encoded texts to fewer dimensions, or takes them as an index stores them."""


def stored(vectors: Tensor, precision: StoredPrecision) -> Tensor:
    """Vectors as an index of this precision decodes them; gradients pass as if they were unchanged.

    `int8` is the index `sq8`: 255 steps from the least to the largest number of each dimension. `binary` is the index
    `binary`, at the mean length of the vectors: the sign of each number.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
    Conditional Computation (2013), section 5, for the gradients.
    """
    if precision == "float32":
        return vectors
    kept = vectors.detach()
    if precision == "int8":
        least, width = kept.amin(0), (kept.amax(0) - kept.amin(0)).clamp_min(torch.finfo(kept.dtype).tiny)
        decoded = least + ((255 * ((kept - least) / width)).floor() + 0.5) / 255 * width
    else:
        decoded = torch.where(kept > 0, 1, -1) * kept.norm(dim=1).mean() / kept.shape[1] ** 0.5
    return vectors + (decoded - kept)


@dataclass(frozen=True)
class LossTerms:
    """The terms that are minimised of a batch.

    dims: the weight of the loss at each number of dimensions; empty: the loss at all dimensions alone. precisions: of
    the documents' vectors, at each of which the loss is taken too.
    regularizer: its penalty is added; None adds nothing. guided_mask: takes out negatives by a guide's scores;
    self_mask: by the model's own, those above its positive's by more than this; None masks nothing more.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), Eq. 1.
    """

    dims: Mapping[int, float] = field(default_factory=dict)
    regularizer: Regularizer | None = None
    guided_mask: GuidedMask | None = None
    self_mask: float | None = None
    precisions: tuple[StoredPrecision, ...] = ()

    def named_with(self, examples: str) -> str:
        """A digest of the examples' and these terms; that of the examples where there are no terms."""
        guided = None if self.guided_mask is None else asdict(self.guided_mask)
        masks = [mask for mask in (guided, self.self_mask) if mask is not None]
        if not self.dims and self.regularizer is None and not masks and not self.precisions:
            return examples
        of = self.regularizer
        named = None if of is None else plugin_identity(type(of).__qualname__, of)
        return digest([examples, [[dim, weight] for dim, weight in self.dims.items()], named, *masks, *self.precisions])

    def needs(self, loss: object) -> frozenset[str]:
        """The optional parts of a `ScoreBatch` that a loss and the masks before it look at."""
        named = {*needs_of(loss)}
        if self.guided_mask is not None:
            named |= {"guide"} | {f"guide_{part}" for part in WITH_EACH_OTHER if part in named}
        return frozenset(named)

    def masked(self, batch: ScoreBatch) -> ScoreBatch:
        batch = batch if self.guided_mask is None else self.guided_mask(batch)
        return batch if self.self_mask is None else self_masked(batch, self.self_mask)

    def check(self, encoder: Encoder) -> None:
        """Asks the encoder whether it can be cut, and stored with less precision.

        Raises:
            UsageError: it has fewer dimensions.
            ModelError: its vectors cannot be cut.
        """
        if not self.dims and not self.precisions:
            return
        if (most := max(self.dims, default=0)) > encoder.dimension:
            raise UsageError(f"dims: {most} is more than the model's {encoder.dimension} dimensions: give fewer")
        encoder.truncated(torch.zeros(1, encoder.dimension), min(self.dims, default=encoder.dimension))

    def loss(self, encoder: Encoder, loss_of: Callable[[Change, Change], Tensor]) -> Tensor:
        """The weighted sum of the losses at each number of dimensions, and at each precision of the documents.

        loss_of: the loss of texts that are cut by the first function, and of documents stored by the second.
        """
        if not self.dims and not self.precisions:
            return loss_of(lambda encoded: encoded, lambda encoded: encoded)
        losses = [
            weight * loss_of(partial(encoder.truncated, dimension=dim), partial(stored, precision=precision))
            for dim, weight in (self.dims or {encoder.dimension: 1.0}).items()
            for precision in self.precisions or ("float32",)
        ]
        return torch.stack(losses).sum()

    def penalty(self, queries: Tensor, documents: Tensor, column: Tensor, done: float) -> Tensor | None:
        """The regularizer's, of encoded queries, float [B, ...], and documents, float [D, ...], each once.

        column: int64 [M], the document of each column of the scores. done: the share of finished steps.
        """
        if self.regularizer is None:
            return None
        counts = torch.bincount(column, minlength=len(documents)).to(documents.device)
        return self.regularizer(EncodedBatch(queries, documents, counts, done))
