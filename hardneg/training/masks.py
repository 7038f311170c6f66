"""Masks from scores: what scores too near to a row's positive, or above it, is no negative of that row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ConfigDict

from hardneg.records import ScoreBatch, TrainingError

if TYPE_CHECKING:
    from torch import Tensor

WITH_EACH_OTHER = ("query_query", "document_document")
"""The parts of a `ScoreBatch` that are the model's own scores of texts of one side."""
GUIDES = ("guide", *(f"guide_{part}" for part in WITH_EACH_OTHER))
"""The parts that are a guide's."""


@dataclass(frozen=True)
class GuidedMask:
    """What a guide scores above g(positive) - margin is no negative; nor so a query or a document of its positive.

    Each of guide [B, M], guide_query_query and guide_document_document is compared with the guide's score of the row's
    query with its positive; of several positives, with the lowest.

    Source: Solatorio, GISTEmbed (2024), section 3; the margins are those of sentence-transformers' `GISTEmbedLoss`.

    Attributes:
        margin: how far below the positive's score a negative must be, at least.
        kind: the margin is `absolute`, or `relative`: times the size of the positive's score.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    margin: float = 0.0
    kind: Literal["absolute", "relative"] = "absolute"

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        fine = isfinite(self.margin) and self.margin >= 0
        return [] if fine else [f"margin must be 0 or above, not {self.margin}"]

    def __call__(self, batch: ScoreBatch) -> ScoreBatch:
        """The batch with less that is valid.

        Raises:
            TrainingError: it has no guide's scores.
        """
        if batch.guide is None:
            raise TrainingError("guided_mask: the batch has no guide's scores: name an encode stage as `guide`")
        highest = _lowest_positive(batch.guide, batch)
        highest = highest - self.margin * (highest.abs() if self.kind == "relative" else 1)
        scores = (batch.guide, batch.guide_query_query, batch.guide_document_document)
        return _without(batch, scores, highest)


def self_masked(batch: ScoreBatch, margin: float) -> ScoreBatch:
    """The batch without what the model itself scores above s(positive) + margin: likely a positive nobody judged.

    No gradient goes through the comparison. Queries and documents with each other are masked likewise.

    Source: Zhang et al., Qwen3 Embedding (2025), Eq. 1 and the mask below it, with a margin of 0.1 for cosines.
    """
    scores, others = batch.scores.detach(), (batch.query_query, batch.document_document)
    above = (None if part is None else part.detach() for part in others)
    return _without(batch, (scores, *above), _lowest_positive(scores, batch) + margin)


def _lowest_positive(scores: "Tensor", batch: ScoreBatch) -> "Tensor":
    """float [B, 1]: the lowest score of a row's positives; infinite where it has none."""
    return scores.masked_fill(~(batch.positive & batch.valid), inf).amin(1, keepdim=True)


def _without(batch: ScoreBatch, by: "Sequence[Tensor | None]", highest: "Tensor") -> ScoreBatch:
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
