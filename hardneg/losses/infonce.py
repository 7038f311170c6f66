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

    A query's other known positives are not among its negatives. Where a row has several
    positives, each is set against the negatives alone. A row without any negative does not count.

    Source: Qu et al., RocketQA (NAACL 2021), Eq. 2; Karpukhin et al., Dense Passage Retrieval
    (EMNLP 2020). The directions: Li et al., Towards General Text Embeddings with Multi-stage Contrastive Learning
    (2023), section 3.2, all four but `positive-positive` in one softmax, the positive in two of them; Solatorio,
    GISTEmbed (2024), with `query-query` and `positive-positive`. `own_and_positives`: Formal et al., SPLADE v2
    (2021), whose program names it InBatchPairwiseNLL. The hardness: Lan et al., LLaVE (2025), Eq. 5, of
    `others` by 9; Schechter Vera et al., EmbeddingGemma (2025), of `own` by 5.

    Attributes:
        temperature: what scores are divided by first.
        negatives: `all` takes every document of the batch as a negative, `own` only those mined
            for the query, `own_and_positives` those and the other queries' positives.
        directions: what stands in the softmax: of a query `query-document` and `query-query`; of its positive
            `document-query`, `document-document` (documents of other queries) and `positive-positive` (their
            positives alone).
        hardness: how much of a negative document's score, before the temperature and without gradient, is added to
            its logit.
        hardness_of: which negatives that is done for: `all`, those mined for the query (`own`), or the `others`.
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
            raise PluginError(f"infonce: hardness must be 0 or above, not {self.hardness}")
        if not self.hardness and self.hardness_of != "all":
            raise PluginError("infonce: hardness_of goes with hardness: give one above 0, or leave hardness_of out")
        if self.negatives == "own" and self.hardness_of == "others":
            raise PluginError("infonce: hardness_of others has none to weigh where negatives are own: leave one out")
        if "query-document" not in self.directions or len({*self.directions}) < len(self.directions):
            named = ", ".join(self.directions) or "none"
            raise PluginError(f"infonce: directions must have query-document, and each one once, not: {named}")

    @property
    def needs(self) -> tuple[str, ...]:
        """What of a batch its directions look at.

        `document-query` reads other rows' scores: a batch with `query_query` is one whose rows share their columns.
        """
        return tuple(sorted({part for direction in self.directions for part in _PARTS.get(direction, ())}))

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar. Raises TrainingError where the batch lacks the scores of a direction."""
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

    It is `infonce` with `negatives: own`. With one negative a query, as ANCE has it, it is log(1 + exp(s_negative -
    s_positive)).

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), Eq. 8 with the NLL loss of section 4.

    Attributes:
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such as cosines.
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

    The hardest negative of a query is the document of the batch that scores best for it, of those that are no known
    positives of it; of equal ones the first column. It alone has a gradient besides the positive.

    Source: NCE Neg of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), section 5 and Table 1: Eq. 3 with the highest scored negative in the batch.

    Attributes:
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such as cosines.
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
    """What each row is set against in a direction other than `query-document`; each row has one positive.

    `document-query` is valid where the other query's row is, so masks judge s(q', d) by the threshold of q'.

    Returns:
        Scores float [B, n] in float32 or better, 0 where there is nothing; bool [B, n] where there is something, and
        where that is a negative: a positive's own query is none.

    Raises:
        TrainingError: the batch has not what is needed.
    """
    drawn = batch.positive.to(torch.uint8).argmax(1)
    if direction == "document-query":
        there = batch.valid[:, drawn].T
        return safe_scores(batch)[:, drawn].T, there, there & ~torch.eye(len(there), dtype=torch.bool).to(there)
    part = batch.query_query if direction == "query-query" else batch.document_document
    if part is None:
        raise TrainingError(f"infonce: direction {direction}: the batch has no such scores: leave it out")
    rows = part if direction == "query-query" else part[drawn]
    scores = (rows[:, drawn] if direction == "positive-positive" else rows).to(safe_scores(batch).dtype)
    there = scores != -torch.inf
    return scores.masked_fill(~there, 0.0), there, there
