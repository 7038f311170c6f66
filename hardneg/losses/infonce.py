"""The softmax loss, also known as InfoNCE or the negative log-likelihood of the positive."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardneg.losses.pairs import check_temperature, negatives, positive_scores, safe_scores, weighted_mean
from hardneg.records import PluginError, ScoreBatch, TrainingError

Direction = Literal["query-document", "query-query", "document-query", "document-document", "positive-positive"]

_PARTS: dict[Direction, tuple[str, ...]] = {
    "query-query": ("query_query",),
    "document-query": ("query_query",),
    "document-document": ("document_document",),
    "positive-positive": ("document_document",),
}


@dataclass(frozen=True)
class InfoNCE:
    """Cross-entropy of each query's positive among the documents of the batch, averaged over queries.

    A query's other known positives are not negatives. If a row has several positives, each competes only with the
    negatives. A row without negatives is ignored.

    Source: Qu et al., RocketQA (NAACL 2021), Eq. 2; Karpukhin et al., Dense Passage Retrieval (EMNLP 2020). For the
    directions: Li et al., Towards General Text Embeddings with Multi-stage Contrastive Learning (2023), section 3.2,
    with all but `positive-positive` in one softmax, where the positive counts twice; Solatorio, GISTEmbed (2024), with
    `query-query` and `positive-positive`. `own_and_positives`: Formal et al., SPLADE v2 (2021), InBatchPairwiseNLL in
    their code. Hardness: Lan et al., LLaVE (2025), Eq. 5, with hardness 9 for `others`; Schechter Vera et al.,
    EmbeddingGemma (2025), with hardness 5 for `own`.

    Attributes:
        temperature: divisor of the scores.
        negatives: `all` documents of the batch, the query's `own` mined negatives, or `own_and_positives`, which adds
            the other queries' positives.
        directions: terms of the softmax. For a query: `query-document`, `query-query`. For its positive:
            `document-query`, `document-document` (documents of other queries), `positive-positive` (other positives).
        hardness: multiple of a negative's score, without gradient or temperature, to add to the negative's logit.
        hardness_of: negatives to which the hardness applies: `all`, the query's `own` mined negatives, or the `others`.
    """

    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"directions", "hardness", "hardness_of"})

    temperature: float = 1.0
    negatives: Literal["all", "own", "own_and_positives"] = "all"
    directions: tuple[Direction, ...] = ("query-document",)
    hardness: float = 0.0
    hardness_of: Literal["all", "own", "others"] = "all"

    def __post_init__(self) -> None:
        check_temperature("infonce", self.temperature)
        if not (self.hardness >= 0 and isfinite(self.hardness)):
            raise PluginError(f"infonce: hardness must be at least 0, not {self.hardness}")
        if not self.hardness and self.hardness_of != "all":
            raise PluginError("infonce: hardness_of needs a hardness above 0; set hardness, or remove hardness_of")
        if self.negatives == "own" and self.hardness_of == "others":
            raise PluginError("infonce: hardness_of others has no effect with negatives own; remove one of them")
        if "query-document" not in self.directions or len({*self.directions}) < len(self.directions):
            named = ", ".join(self.directions) or "none"
            raise PluginError(f"infonce: directions must be distinct and include query-document, not {named}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The optional parts of `ScoreBatch` that the directions read.

        `document-query` also requires `query_query`; like `query-query`, it needs a batch whose rows share columns.
        """
        return tuple(sorted({part for direction in self.directions for part in _PARTS.get(direction, ())}))

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """Return the loss, a scalar. Raises TrainingError if the batch has no scores for a direction."""
        scores = safe_scores(batch) / self.temperature
        positive, present = positive_scores(scores, batch)
        allowed = {
            "all": torch.ones_like(batch.own),
            "own": batch.own,
            "own_and_positives": batch.own | batch.positive.any(0),
        }
        chosen = negatives(batch) & allowed[self.negatives]
        lowest = torch.finfo(scores.dtype).min / 2
        weighted = scores
        if self.hardness:
            which = {"all": torch.ones_like(batch.own), "own": batch.own, "others": ~batch.own}[self.hardness_of]
            weighted = scores + (self.hardness * safe_scores(batch).detach()).masked_fill(~which, 0.0)
        logits = [weighted.masked_fill(~chosen, lowest)]
        for direction in self.directions:
            if direction != "query-document":
                more, there, against = side_scores(direction, batch)
                logits.append((more / self.temperature).masked_fill(~there, lowest))
                chosen = torch.cat([chosen, against], dim=1)
        all_logits = torch.cat(logits, dim=1).logsumexp(1, keepdim=True)
        counted = present & chosen.any(1, keepdim=True)
        return weighted_mean(softplus(all_logits - positive), counted, batch.weights)


@dataclass(frozen=True)
class Nll:
    """-log softmax of each query's positive against the negatives mined for that query, averaged over queries.

    This equals `infonce` with `negatives: own`. With one negative per query, as in ANCE, it is log(1 + exp(s_negative -
    s_positive)).

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), Eq. 8 with the NLL loss of section 4.

    Attributes:
        temperature: divisor of the scores; use a value below 1 for scores in a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature("nll", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        return InfoNCE(self.temperature, "own")(batch)


@dataclass(frozen=True)
class Hardest:
    """log(1 + exp(s_hardest - s_positive)), averaged over queries.

    The hardest negative of a query is the best-scoring document of the batch that is not a known positive; ties go to
    the first column. Only this negative and the positive receive gradients.

    Source: NCE Neg of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), section 5 and Table 1: Eq. 3 with the highest-scoring negative of the batch.

    Attributes:
        temperature: divisor of the scores; use a value below 1 for scores in a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature("hardest", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        scores = safe_scores(batch) / self.temperature
        positive, present = positive_scores(scores, batch)
        others = negatives(batch)
        column = scores.masked_fill(~others, -torch.inf).argmax(1, keepdim=True)
        counted = present & others.any(1, keepdim=True)
        return weighted_mean(softplus(scores.gather(1, column) - positive), counted, batch.weights)


def side_scores(direction: Direction, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores of each row in a direction other than `query-document`; each row must have one positive.

    For `document-query`, the score of a document d and another query q' exists if d is valid in the row of q'.

    Returns:
        The scores, float32 or float64 [B, n], 0 where missing; a mask of the scores that exist, bool [B, n]; and a mask
        of the negatives, bool [B, n], which excludes a positive's own query.

    Raises:
        TrainingError: the batch has no scores for this direction.
    """
    drawn = batch.positive.to(torch.uint8).argmax(1)
    if direction == "document-query":
        there = batch.valid[:, drawn].T
        return safe_scores(batch)[:, drawn].T, there, there & ~torch.eye(len(there), dtype=torch.bool).to(there)
    part = batch.query_query if direction == "query-query" else batch.document_document
    if part is None:
        raise TrainingError(f"infonce: the batch has no scores for direction {direction}; remove the direction")
    rows = part if direction == "query-query" else part[drawn]
    scores = (rows[:, drawn] if direction == "positive-positive" else rows).to(safe_scores(batch).dtype)
    there = scores != -torch.inf
    return scores.masked_fill(~there, 0.0), there, there
