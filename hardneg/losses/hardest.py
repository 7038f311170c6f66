"""NCE Neg's loss: the hardest document of the batch as the only negative."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardneg.losses.pairs import check_temperature, negatives, positive_scores, safe_scores, weighted_mean
from hardneg.records.types import ScoreBatch


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
        """The loss, a scalar."""
        scores = safe_scores(batch) / self.temperature
        positive, present = positive_scores(scores, batch)
        others = negatives(batch)
        column = scores.masked_fill(~others, -torch.inf).argmax(1, keepdim=True)
        counted = present & others.any(1, keepdim=True)
        return weighted_mean(softplus(scores.gather(1, column) - positive), counted, batch.weights)
