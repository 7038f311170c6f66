"""The terms of a batch's loss: masks, the loss at several sizes of vectors, a penalty."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

import torch
from torch import Tensor

from hardneg.encoders.encoder import Encoder
from hardneg.records.errors import UsageError
from hardneg.records.types import EncodedBatch, ScoreBatch
from hardneg.registry.plugins import needs_of
from hardneg.registry.protocols import Regularizer
from hardneg.store.digest import digest
from hardneg.store.identity import plugin_identity
from hardneg.training.masks import WITH_EACH_OTHER, GuidedMask, self_masked

Cut = Callable[[Tensor], Tensor]
"""Truncates encoded texts to fewer dimensions."""


@dataclass(frozen=True)
class LossTerms:
    """The terms that are minimised of a batch.

    dims: the weight of the loss at each number of dimensions; empty: the loss at all dimensions alone.
    regularizer: its penalty is added; None adds nothing. guided_mask: takes out negatives by a guide's scores;
    self_mask: by the model's own, those above its positive's by more than this; None masks nothing more.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), Eq. 1.
    """

    dims: Mapping[int, float] = field(default_factory=dict)
    regularizer: Regularizer | None = None
    guided_mask: GuidedMask | None = None
    self_mask: float | None = None

    def named_with(self, examples: str) -> str:
        """A digest of the examples' and these terms; that of the examples where there are no terms."""
        guided = None if self.guided_mask is None else asdict(self.guided_mask)
        masks = [mask for mask in (guided, self.self_mask) if mask is not None]
        if not self.dims and self.regularizer is None and not masks:
            return examples
        of = self.regularizer
        named = None if of is None else plugin_identity(type(of).__qualname__, of)
        return digest([examples, [[dim, weight] for dim, weight in self.dims.items()], named, *masks])

    def needs(self, loss: object) -> frozenset[str]:
        """The optional parts of a `ScoreBatch` that a loss and the masks before it look at."""
        named = {*needs_of(loss)}
        if self.guided_mask is not None:
            named |= {"guide"} | {f"guide_{part}" for part in WITH_EACH_OTHER if part in named}
        return frozenset(named)

    def masked(self, batch: ScoreBatch) -> ScoreBatch:
        """Apply the masks."""
        batch = batch if self.guided_mask is None else self.guided_mask(batch)
        return batch if self.self_mask is None else self_masked(batch, self.self_mask)

    def check(self, encoder: Encoder) -> None:
        """Asks the encoder whether it can be cut.

        Raises:
            UsageError: it has fewer dimensions.
            ModelError: its vectors cannot be cut.
        """
        if not self.dims:
            return
        if (most := max(self.dims)) > encoder.dimension:
            raise UsageError(f"dims: {most} is more than the model's {encoder.dimension} dimensions: give fewer")
        encoder.truncated(torch.zeros(1, encoder.dimension), min(self.dims))

    def loss(self, encoder: Encoder, loss_of: Callable[[Cut], Tensor]) -> Tensor:
        """The weighted sum of the losses at each number of dimensions; loss_of: the loss of texts that are cut so."""
        if not self.dims:
            return loss_of(lambda encoded: encoded)
        losses = [weight * loss_of(partial(encoder.truncated, dimension=dim)) for dim, weight in self.dims.items()]
        return torch.stack(losses).sum()

    def penalty(self, queries: Tensor, documents: Tensor, column: Tensor, done: float) -> Tensor | None:
        """The regularizer's.

        Args:
            queries: float [B, ...], encoded.
            documents: float [D, ...], encoded, each once.
            column: int64 [M], the document of each column of the scores.
            done: the share of finished steps.
        """
        if self.regularizer is None:
            return None
        counts = torch.bincount(column, minlength=len(documents)).to(documents.device)
        return self.regularizer(EncodedBatch(queries, documents, counts, done))
