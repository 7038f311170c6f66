"""Terms of a batch's loss: masks by scores, the loss at several dimensions and precisions, a regularization penalty."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from hardneg.protocols import Regularizer
from hardneg.records import errors, types
from hardneg.registry import needs_of
from hardneg.store import digest, plugin_identity
from hardneg.training.options import CheckedOptions, option

if TYPE_CHECKING:
    from torch import Tensor

WITH_EACH_OTHER = ("query_query", "document_document")
"""Fields of a `ScoreBatch` with the model's scores of texts of the same side."""
GUIDES = ("guide", *(f"guide_{part}" for part in WITH_EACH_OTHER))
"""Fields with a guide's scores."""


@dataclass(frozen=True)
class GuidedMask(CheckedOptions):
    """Mask of negatives that a guide scores above g(positive) - margin, in all three of its score matrices.

    guide [B, M], guide_query_query and guide_document_document are compared with the guide's score of the row's query
    and positive, the lowest one if there are several.

    Source: Solatorio, GISTEmbed (2024), section 3; margins as in sentence-transformers' `GISTEmbedLoss`.

    Attributes:
        margin: least distance of a negative's score below the positive's.
        kind: `absolute`, or `relative` to the size of the positive's score.
    """

    margin: float = option(0.0, "How far below the positive's score a negative must be, at least.", least=0)
    kind: Literal["absolute", "relative"] = "absolute"

    def __call__(self, batch: types.ScoreBatch) -> types.ScoreBatch:
        """Return the batch with these negatives masked. Raises TrainingError if the batch has no guide's scores."""
        if batch.guide is None:
            raise errors.TrainingError("guided_mask: the batch has no guide's scores: name an encode stage as `guide`")
        highest = _lowest_positive(batch.guide, batch)
        highest = highest - self.margin * (highest.abs() if self.kind == "relative" else 1)
        return _mask(batch, (batch.guide, batch.guide_query_query, batch.guide_document_document), highest)


def self_masked(batch: types.ScoreBatch, margin: float) -> types.ScoreBatch:
    """Mask negatives that the model itself scores above s(positive) + margin, as likely unjudged positives.

    Scores between queries and between documents are masked too. No gradient flows through the comparison.

    Source: Zhang et al., Qwen3 Embedding (2025), Eq. 1 and the mask below it, with a margin of 0.1 for cosines.
    """
    parts = (batch.scores, batch.query_query, batch.document_document)
    scores = [None if part is None else part.detach() for part in parts]
    return _mask(batch, scores, _lowest_positive(batch.scores.detach(), batch) + margin)


def _lowest_positive(scores: "Tensor", batch: types.ScoreBatch) -> "Tensor":
    """The lowest score of each row's positives, float [B, 1]; infinite for a row without any."""
    return scores.masked_fill(~(batch.positive & batch.valid), inf).amin(1, keepdim=True)


def _mask(batch: types.ScoreBatch, parts: "Sequence[Tensor | None]", highest: "Tensor") -> types.ScoreBatch:
    """Mask what scores above `highest`, float [B, 1]; parts: scores [B, M], [B, B] or None, [M, M] or None."""
    scores, query_query, document_document = parts
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
"""A function that truncates encoded texts, or quantizes them as an index does."""


def stored(vectors: "Tensor", precision: types.StoredPrecision) -> "Tensor":
    """Vectors quantized and decoded as by an index of this precision, with a straight-through gradient.

    `int8` is the index `sq8`: 255 steps between the minimum and maximum of each dimension. `binary` is the index
    `binary`: the sign of each number, at the mean length of the vectors.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
    Conditional Computation (2013), section 5, for the gradients.
    """
    import torch

    if precision == "float32":
        return vectors
    exact = vectors.detach()
    if precision == "int8":
        least, width = exact.amin(0), (exact.amax(0) - exact.amin(0)).clamp_min(torch.finfo(exact.dtype).tiny)
        decoded = least + ((255 * ((exact - least) / width)).floor() + 0.5) / 255 * width
    else:
        decoded = torch.where(exact > 0, 1, -1) * exact.norm(dim=1).mean() / exact.shape[1] ** 0.5
    return vectors + (decoded - exact)


@dataclass(frozen=True)
class LossTerms:
    """The terms of a batch that training minimises.

    dims: weight of the loss at each number of dimensions; empty means all dimensions alone. precisions: of the
    documents' vectors, with a loss at each. regularizer: its penalty is added. guided_mask: masks negatives by a
    guide's scores. self_mask: masks negatives that the model scores above the positive by more than this.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), Eq. 1.
    """

    dims: Mapping[int, float] = field(default_factory=dict)
    regularizer: Regularizer | None = None
    guided_mask: GuidedMask | None = None
    self_mask: float | None = None
    precisions: tuple[types.StoredPrecision, ...] = ()

    def named_with(self, examples: str) -> str:
        """A digest of the examples and these terms; the examples' own digest if there are no terms."""
        if self == LossTerms():
            return examples
        guided, of = None if self.guided_mask is None else asdict(self.guided_mask), self.regularizer
        named = None if of is None else plugin_identity(type(of).__qualname__, of)
        masks = [mask for mask in (guided, self.self_mask) if mask is not None]
        return digest([examples, [[dim, weight] for dim, weight in self.dims.items()], named, *masks, *self.precisions])

    def needs(self, loss: object) -> frozenset[str]:
        """The optional fields of a `ScoreBatch` that a loss and the masks read."""
        named = frozenset(needs_of(loss))
        if self.guided_mask is None:
            return named
        return named | {"guide", *(f"guide_{part}" for part in WITH_EACH_OTHER if part in named)}

    def masked(self, batch: types.ScoreBatch) -> types.ScoreBatch:
        """The batch after all masks."""
        batch = batch if self.guided_mask is None else self.guided_mask(batch)
        return batch if self.self_mask is None else self_masked(batch, self.self_mask)

    def check(self, encoder: Any) -> None:
        """Check that the encoder's vectors can be truncated and quantized.

        Raises:
            UsageError: it has fewer dimensions.
            ModelError: its vectors cannot be truncated.
        """
        import torch

        if not self.dims and not self.precisions:
            return
        if (most := max(self.dims, default=0)) > encoder.dimension:
            raise errors.UsageError(f"dims: {most} exceeds the model's {encoder.dimension} dimensions: give fewer")
        encoder.truncated(torch.zeros(1, encoder.dimension), min(self.dims, default=encoder.dimension))

    def loss(self, encoder: Any, loss_of: Callable[[Change, Change], "Tensor"]) -> "Tensor":
        """The weighted sum of the losses at each number of dimensions and each precision of the documents.

        loss_of: the loss with texts truncated by the first function and documents quantized by the second.
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
        """The regularizer's penalty of the distinct encoded queries, float [B, ...], and documents, float [D, ...].

        column: int64 [M], the document of each column of the scores. done: the fraction of finished steps.
        """
        if self.regularizer is None:
            return None
        counts = column.bincount(minlength=len(documents)).to(documents.device)
        return self.regularizer(types.EncodedBatch(queries, documents, counts, done))
