"""Pointwise losses: each document is relevant or not, whatever the others are."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import softplus

from hardneg.losses.pairs import negatives, safe_scores, weighted_mean
from hardneg.records.types import ScoreBatch


@dataclass(frozen=True)
class Bce:
    """Binary cross-entropy of each document's score as a logit, averaged over all documents of rows with a negative.

    Made for rerankers, whose rows hold a query's own documents; 1 positive and 4 negatives count a fifth each.

    Source: Nogueira and Cho, Passage Re-ranking with BERT (2019), Eq. 1.
    """

    version: ClassVar[int] = 1

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar."""
        scores = safe_scores(batch)
        counted = batch.valid & negatives(batch).any(1, keepdim=True)
        return weighted_mean(softplus(scores.where(~batch.positive, -scores)), counted, batch.weights)


@dataclass(frozen=True)
class TwoClass:
    """Cross-entropy of a softmax over two outputs, relevant and not, of a reranker with a head of two.

    The score of a pair is the difference of its two outputs, so that the value is that of `bce`.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; the two classes are those of its program.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[int] = 2

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar."""
        return Bce()(batch)
