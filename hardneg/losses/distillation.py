"""Losses by a teacher's scores: its distribution over a query's documents, or its margins between pairs of them."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar

from torch import Tensor

from hardneg.losses import pairs
from hardneg.losses.pairs import check_temperature, lowered, safe_scores, taught_scores, weighted_mean
from hardneg.records import errors, types


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

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        """The loss, a scalar. Raises TrainingError without a teacher's scores, or where they are not what they say."""
        teacher, taught = taught_scores("kl", batch, self.probabilities)
        taught = taught & batch.valid
        taught_log = lowered(teacher / self.teacher_temperature, taught).log_softmax(1)
        student = lowered(safe_scores(batch) / self.temperature, taught).log_softmax(1)
        terms = (taught_log.exp() * (taught_log - student)).masked_fill(~taught, 0.0)
        return weighted_mean(terms.sum(1), taught.sum(1) > 1, batch.weights)


@dataclass(frozen=True)
class MarginMSE:
    """Mean of ((s_positive - s_negative) - (t_positive - t_negative))^2 over the pairs that the teacher scored.

    Needs a teacher's scores: a run's, as stage `train` gives them for each query's own documents, or those of a guide,
    which scores all documents of the batch. A pair of which one document has no score of the teacher's is left out. The
    two margins are compared as they are: a teacher's logits suit inner products, and cosines want a `temperature`.

    Source: Hofstätter et al., Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation
    (2020), section 3.1. Two teachers: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with
    Balanced Topic Aware Sampling (SIGIR 2021), which adds the in-batch teacher's part times 0.75.

    Attributes:
        temperature: what the scores, not the teacher's, are divided by first.
        probabilities: the teacher's scores are probabilities; their logits are compared.
        in_batch: the weight of a second teacher's part, the stage's guide, over all pairs of a query's positive with a
            negative of the batch; 0 leaves it out.
        in_batch_own: whether the second teacher's part has the pairs of a query's positive with its own negatives too;
            TAS-B's program leaves them to the first teacher.
    """

    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"in_batch", "in_batch_own"})

    temperature: float = 1.0
    probabilities: bool = False
    in_batch: float = 0.0
    in_batch_own: bool = True

    def __post_init__(self) -> None:
        check_temperature("margin-mse", self.temperature)
        if not (self.in_batch >= 0 and isfinite(self.in_batch)):
            raise errors.PluginError(f"margin-mse: in_batch must be 0 or above, not {self.in_batch}")
        if not (self.in_batch or self.in_batch_own):
            raise errors.PluginError("margin-mse: in_batch_own goes with in_batch: give one above 0, or leave it out")

    @property
    def needs(self) -> tuple[str, ...]:
        """A teacher, and a guide where that is the second one."""
        return ("teacher", "guide") if self.in_batch else ("teacher",)

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        """The loss, a scalar. Raises TrainingError without a teacher's scores, or where they are not what they say."""
        loss = self._margins(batch, *taught_scores("margin-mse", batch, self.probabilities))
        if not self.in_batch:
            return loss
        scores, taught = taught_scores("margin-mse", replace(batch, teacher=batch.guide))
        taught = taught if self.in_batch_own else taught & ~batch.own
        return loss + self.in_batch * self._margins(batch, scores, taught)

    def _margins(self, batch: types.ScoreBatch, teacher: Tensor, taught: Tensor) -> Tensor:
        gaps = safe_scores(batch) / self.temperature - teacher
        positive, present = pairs.positive_scores(gaps, batch)
        known, _ = pairs.positive_scores(taught.to(gaps.dtype), batch)
        paired = (present & known.bool())[:, :, None] & (pairs.negatives(batch) & taught)[:, None, :]
        squares = (positive[:, :, None] - gaps[:, None, :]).masked_fill(~paired, 0.0).square()
        return weighted_mean(squares, paired, batch.weights)
