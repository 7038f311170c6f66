"""The squared difference of margins: what a teacher sees between a positive and a negative is what is learnt."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hardneg.losses.pairs import (
    check_temperature,
    negatives,
    positive_scores,
    safe_scores,
    taught_scores,
    weighted_mean,
)
from hardneg.types import ScoreBatch


@dataclass(frozen=True)
class MarginMSE:
    """Mean of ((s_positive - s_negative) - (t_positive - t_negative))^2 over the pairs that the teacher scored.

    Needs a teacher's scores, as stage `train` gives them for each query's own documents. A pair of which one document
    has no score of the teacher's is left out. The two margins are compared as they are: a teacher's logits suit inner
    products, and cosines want a `temperature`.

    Source: Hofstätter et al., Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation
    (2020), section 3.1.

    Attributes:
        temperature: what the scores, not the teacher's, are divided by first.
        probabilities: the teacher's scores are probabilities; their logits are compared.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("teacher",)

    temperature: float = 1.0
    probabilities: bool = False

    def __post_init__(self) -> None:
        check_temperature("margin-mse", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar.

        Raises:
            TrainingError: the batch has no teacher's scores, or they are not what they should be.
        """
        teacher, taught = taught_scores("margin-mse", batch, self.probabilities)
        gaps = safe_scores(batch) / self.temperature - teacher
        positive, present = positive_scores(gaps, batch)
        known, _ = positive_scores(taught.to(gaps.dtype), batch)
        pairs = (present & known.bool())[:, :, None] & (negatives(batch) & taught)[:, None, :]
        squares = (positive[:, :, None] - gaps[:, None, :]).masked_fill(~pairs, 0.0).square()
        return weighted_mean(squares, pairs, batch.weights)
