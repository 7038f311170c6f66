"""The softmax loss, also known as InfoNCE or the negative log-likelihood of the positive."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardneg.losses.pairs import check_temperature, negatives, positive_scores, safe_scores, weighted_mean
from hardneg.types import ScoreBatch


@dataclass(frozen=True)
class InfoNCE:
    """Cross-entropy of each query's positive among the documents of the batch, averaged over queries.

    A query's other known positives are not among its negatives. Where a row has several
    positives, each is set against the negatives alone.

    Source: Qu et al., RocketQA (NAACL 2021), Eq. 2; Karpukhin et al., Dense Passage Retrieval
    (EMNLP 2020).

    Attributes:
        temperature: what scores are divided by first.
        negatives: `all` takes every document of the batch as a negative, `own` only those mined
            for the query.
    """

    version: ClassVar[int] = 1

    temperature: float = 1.0
    negatives: Literal["all", "own"] = "all"

    def __post_init__(self) -> None:
        check_temperature("infonce", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar."""
        scores = safe_scores(batch) / self.temperature
        positive, present = positive_scores(scores, batch)
        chosen = negatives(batch) & batch.own if self.negatives == "own" else negatives(batch)
        lowest = torch.finfo(scores.dtype).min / 2
        against = scores.masked_fill(~chosen, lowest).logsumexp(1, keepdim=True)
        counted = present & chosen.any(1, keepdim=True)
        return weighted_mean(softplus(against - positive), counted, batch.weights)


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
        """The loss, a scalar."""
        return InfoNCE(self.temperature, "own")(batch)
