"""The terms of a batch's loss: masks from scores, the loss at several sizes and precisions of vectors, a penalty."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal

from hardneg.protocols import Regularizer
from hardneg.records import errors, types
from hardneg.registry import needs_of
from hardneg.store import digest, plugin_identity
from hardneg.training.options import CheckedOptions, option

if TYPE_CHECKING:
    from torch import Tensor

    from hardneg.encoders.encoder import Encoder

WITH_EACH_OTHER = ("query_query", "document_document")
"""The parts of a `ScoreBatch` that are the model's own scores of texts of one side."""
GUIDES = ("guide", *(f"guide_{part}" for part in WITH_EACH_OTHER))
"""The parts that are a guide's."""


@dataclass(frozen=True)
class GuidedMask(CheckedOptions):
    """What a guide scores above g(positive) - margin is no negative; nor so a query or a document of its positive.

    Each of guide [B, M], guide_query_query and guide_document_document is compared with the guide's score of the row's
    query with its positive; of several positives, with the lowest.

    Source: Solatorio, GISTEmbed (2024), section 3; the margins are those of sentence-transformers' `GISTEmbedLoss`.

    Attributes:
        margin: how far below the positive's score a negative must be, at least.
        kind: the margin is `absolute`, or `relative`: times the size of the positive's score.
    """

    margin: float = option(0.0, "How far below the positive's score a negative must be, at least.", least=0)
    kind: Literal["absolute", "relative"] = "absolute"

    def __call__(self, batch: types.ScoreBatch) -> types.ScoreBatch:
        """The batch with less that is valid.

        Raises:
            TrainingError: it has no guide's scores.
        """
        if batch.guide is None:
            raise errors.TrainingError("guided_mask: the batch has no guide's scores: name an encode stage as `guide`")
        highest = _lowest_positive(batch.guide, batch)
        highest = highest - self.margin * (highest.abs() if self.kind == "relative" else 1)
        return _without(batch, (batch.guide, batch.guide_query_query, batch.guide_document_document), highest)


def self_masked(batch: types.ScoreBatch, margin: float) -> types.ScoreBatch:
    """The batch without what the model itself scores above s(positive) + margin: likely a positive nobody judged.

    No gradient goes through the comparison. Queries and documents with each other are masked likewise.

    Source: Zhang et al., Qwen3 Embedding (2025), Eq. 1 and the mask below it, with a margin of 0.1 for cosines.
    """
    parts = (batch.scores, batch.query_query, batch.document_document)
    scores = [None if part is None else part.detach() for part in parts]
    return _without(batch, scores, _lowest_positive(batch.scores.detach(), batch) + margin)


def _lowest_positive(scores: "Tensor", batch: types.ScoreBatch) -> "Tensor":
    """float [B, 1]: the lowest score of a row's positives; infinite where it has none."""
    return scores.masked_fill(~(batch.positive & batch.valid), inf).amin(1, keepdim=True)


def _without(batch: types.ScoreBatch, by: "Sequence[Tensor | None]", highest: "Tensor") -> types.ScoreBatch:
    """The batch without what scores above `highest`, float [B, 1]; by: float [B, M], [B, B] or None, [M, M] or None."""
    scores, query_query, document_document = by
    assert scores is not None
    valid = batch.valid & (batch.positive | (scores <= highest))
    queries, documents = batch.query_query, batch.document_document
    if queries is not None and query_query is not None:
        queries = queries.masked_fill(query_query > highest, -inf)
    if documents is not None and document_document is not None:
        owner = (batch.positive | batch.own).int().argmax(0)
        documents = documents.masked_fill(document_document > highest[owner], -inf)
    return replace(batch, valid=valid, query_query=queries, document_document=documents)


Change = Callable[["Tensor"], "Tensor"]
"""Truncates encoded texts to fewer dimensions, or takes them as an index stores them."""


def stored(vectors: "Tensor", precision: types.StoredPrecision) -> "Tensor":
    """Vectors as an index of this precision decodes them; gradients pass as if they were unchanged.

    `int8` is the index `sq8`: 255 steps from the least to the largest number of each dimension. `binary` is the index
    `binary`, at the mean length of the vectors: the sign of each number.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
    Conditional Computation (2013), section 5, for the gradients.
    """
    import torch

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
    the documents' vectors, at each of which the loss is taken too. regularizer: its penalty is added. guided_mask:
    takes out negatives by a guide's scores; self_mask: by the model's own, those above its positive's by more than
    this; None masks nothing more.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), Eq. 1.
    """

    dims: Mapping[int, float] = field(default_factory=dict)
    regularizer: Regularizer | None = None
    guided_mask: GuidedMask | None = None
    self_mask: float | None = None
    precisions: tuple[types.StoredPrecision, ...] = ()

    def named_with(self, examples: str) -> str:
        """A digest of the examples' and these terms; that of the examples where there are no terms."""
        if self == LossTerms():
            return examples
        guided, of = None if self.guided_mask is None else asdict(self.guided_mask), self.regularizer
        named = None if of is None else plugin_identity(type(of).__qualname__, of)
        masks = [mask for mask in (guided, self.self_mask) if mask is not None]
        return digest([examples, [[dim, weight] for dim, weight in self.dims.items()], named, *masks, *self.precisions])

    def needs(self, loss: object) -> frozenset[str]:
        """The optional parts of a `ScoreBatch` that a loss and the masks before it look at."""
        named = frozenset(needs_of(loss))
        if self.guided_mask is None:
            return named
        return named | {"guide", *(f"guide_{part}" for part in WITH_EACH_OTHER if part in named)}

    def masked(self, batch: types.ScoreBatch) -> types.ScoreBatch:
        """The batch as the masks leave it."""
        batch = batch if self.guided_mask is None else self.guided_mask(batch)
        return batch if self.self_mask is None else self_masked(batch, self.self_mask)

    def check(self, encoder: "Encoder") -> None:
        """Asks the encoder whether it can be cut, and stored with less precision.

        Raises:
            UsageError: it has fewer dimensions.
            ModelError: its vectors cannot be cut.
        """
        import torch

        if not self.dims and not self.precisions:
            return
        if (most := max(self.dims, default=0)) > encoder.dimension:
            raise errors.UsageError(f"dims: {most} is more than the model's {encoder.dimension} dimensions: give fewer")
        encoder.truncated(torch.zeros(1, encoder.dimension), min(self.dims, default=encoder.dimension))

    def loss(self, encoder: "Encoder", loss_of: Callable[[Change, Change], "Tensor"]) -> "Tensor":
        """The weighted sum of the losses at each number of dimensions, and at each precision of the documents.

        loss_of: the loss of texts that are cut by the first function, and of documents stored by the second.
        """
        import torch

        if not self.dims and not self.precisions:
            return loss_of(lambda encoded: encoded, lambda encoded: encoded)
        losses = [
            weight * loss_of(partial(encoder.truncated, dimension=dim), partial(stored, precision=precision))
            for dim, weight in (self.dims or {encoder.dimension: 1.0}).items()
            for precision in self.precisions or ("float32",)
        ]
        return torch.stack(losses).sum()

    def penalty(self, queries: "Tensor", documents: "Tensor", column: "Tensor", done: float) -> "Tensor | None":
        """The regularizer's, of encoded queries, float [B, ...], and documents, float [D, ...], each once.

        column: int64 [M], the document of each column of the scores. done: the share of finished steps.
        """
        if self.regularizer is None:
            return None
        counts = column.bincount(minlength=len(documents)).to(documents.device)
        return self.regularizer(types.EncodedBatch(queries, documents, counts, done))
