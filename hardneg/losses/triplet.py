"""CoRT's loss: a margin between angular scores, summed over the whole batch."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import relu

from hardneg.losses.pairs import negatives, positive_scores, safe_scores
from hardneg.records.errors import PluginError
from hardneg.records.types import ScoreBatch

_NEAREST = 1e-6  # to a cosine of 1 or -1 that still has a gradient


@dataclass(frozen=True)
class Triplet:
    """The sum of max(0, s_negative - s_positive + margin) over all pairs of a batch, s = 1 - arccos(cosine) / pi.

    Made for cosines, of a model with `similarity: cosine`. Each query meets every document of the batch but its known
    positives; with the stage's option `false_negative_mask: false`, every one but its own positive, as published. It
    is a sum: a batch of twice the size has four times the loss.

    The arccosine has no finite derivative at 1 and -1: a cosine nearer than 1e-6 to them counts with its value and has
    no gradient.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track (2020), Eq. 1 to 3. The bound of the
    gradient is ours: the authors' program has none, and NaN at a cosine of 1.

    Attributes:
        margin: by how much a positive's score should be above a negative's; scores are between 0 and 1.
    """

    version: ClassVar[int] = 1
    similarity: ClassVar[str] = "cosine"

    margin: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1:
            raise PluginError(f"triplet: margin must be between 0 and 1, not {self.margin}")

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar."""
        scores = angular(safe_scores(batch))
        positive, present = positive_scores(scores, batch)
        losses = relu(scores[:, None, :] - positive[:, :, None] + self.margin)
        paired = present[:, :, None] & negatives(batch)[:, None, :]
        each = losses.masked_fill(~paired, 0.0).sum((1, 2))
        return each.sum() if batch.weights is None else (each * batch.weights.to(each.dtype)).sum()


def angular(cosines: Tensor) -> Tensor:
    """1 - arccos(cosine) / pi, between 0 and 1; no gradient nearer than 1e-6 to a cosine of 1 or -1."""
    bounded = cosines.clamp(-1 + _NEAREST, 1 - _NEAREST)
    learnt = 1 - torch.arccos(bounded) / pi
    exact = 1 - torch.arccos(cosines.detach().clamp(-1, 1)) / pi
    return learnt + (exact - learnt.detach())
