"""The Kullback-Leibler divergence from a teacher's distribution over a query's documents."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hardneg.losses.pairs import check_temperature, safe_scores, taught_scores, weighted_mean
from hardneg.records.types import ScoreBatch


@dataclass(frozen=True)
class KL:
    """The mean over queries of KL(softmax(t) || softmax(s)), over the documents of a query that the teacher scored.

    Needs a teacher's scores, as stage `train` gives them for each query's own documents. A query with fewer than two
    scored documents is left out; which of them is the positive plays no part.

    Source: Hinton et al., Distilling the Knowledge in a Neural Network (2015); for retrieval Lin et al., In-Batch
    Negatives for Knowledge Distillation with Tightly-Coupled Teachers (RepL4NLP 2021), section 3.

    Attributes:
        temperature: what the scores are divided by first; below 1 for scores of a narrow range, such as cosines.
        teacher_temperature: what the teacher's scores are divided by first.
        probabilities: the teacher's scores are probabilities; their logits are taken.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("teacher",)

    temperature: float = 1.0
    teacher_temperature: float = 1.0
    probabilities: bool = False

    def __post_init__(self) -> None:
        check_temperature("kl", self.temperature)
        check_temperature("kl", self.teacher_temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar.

        Raises:
            TrainingError: the batch has no teacher's scores, or they are not what they should be.
        """
        teacher, taught = taught_scores("kl", batch, self.probabilities)
        taught = taught & batch.valid
        taught_log = _log_softmax(teacher / self.teacher_temperature, taught)
        student = _log_softmax(safe_scores(batch) / self.temperature, taught)
        terms = (taught_log.exp() * (taught_log - student)).masked_fill(~taught, 0.0)
        return weighted_mean(terms.sum(1), taught.sum(1) > 1, batch.weights)


def _log_softmax(scores: Tensor, counted: Tensor) -> Tensor:
    """The logarithms of a distribution over the counted cells of each row; far below the others elsewhere."""
    lowest = torch.finfo(scores.dtype).min / 4
    return scores.masked_fill(~counted, lowest).log_softmax(1)
