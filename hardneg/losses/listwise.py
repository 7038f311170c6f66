"""Listwise losses, over all documents of a query at once, with judgements or a teacher's scores as labels."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hardneg.losses.pairs import check_temperature, lowered, safe_scores, teacher_scores, weighted_mean
from hardneg.records import errors, types


@dataclass(frozen=True)
class Listwise:
    """Base class of the listwise losses; it supplies document labels and a mask of the documents to use.

    Attributes:
        labels: `judged` labels positives 1 and all other documents 0; `teacher` uses the teacher's scores as labels and
            skips unscored documents. Queries with fewer than two documents left are skipped.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = "listwise"

    labels: Literal["judged", "teacher"] = "judged"

    def __post_init__(self) -> None:
        if self.labels not in ("judged", "teacher"):
            raise errors.PluginError(f"{self.name}: labels must be judged or teacher, not {self.labels!r}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The parts of `ScoreBatch` that the loss needs: `teacher` if `labels` is `teacher`, otherwise none."""
        return ("teacher",) if self.labels == "teacher" else ()

    def _labelled(self, batch: types.ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores and labels, [B, M], 0 for unused documents, and a mask of the documents used, bool [B, M]."""
        scores = safe_scores(batch)
        labels, counted = batch.positive.to(scores.dtype), batch.valid
        if self.labels == "teacher":
            labels, scored = teacher_scores(self.name, batch)
            counted = counted & scored
        counted = counted & (counted.sum(1, keepdim=True) > 1)
        return scores.masked_fill(~counted, 0.0), labels.masked_fill(~counted, 0.0), counted


@dataclass(frozen=True)
class ListNet(Listwise):
    """The cross-entropy of softmax(labels) and softmax(scores) over a query's documents, averaged over queries.

    Source: Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach (ICML 2007), the cross-entropy of
    top-one probabilities.
    """

    name: ClassVar[str] = "listnet"

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        scores, labels, counted = self._labelled(batch)
        terms = lowered(labels, counted).softmax(1) * lowered(scores, counted).log_softmax(1)
        return weighted_mean(-terms.masked_fill(~counted, 0.0).sum(1), counted.any(1), batch.weights)


@dataclass(frozen=True)
class ListMLE(Listwise):
    """The negative log-likelihood of the label order under the Plackett-Luce model, averaged over queries.

    Documents with equal labels are ordered by their scores, which is their most likely order.

    Source: Xia et al., Listwise Approach to Learning to Rank: Theory and Algorithm (ICML 2008), the likelihood loss.
    """

    name: ClassVar[str] = "listmle"

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        scores, labels, counted = self._labelled(batch)
        order = scores.detach().argsort(dim=1, descending=True)
        order = order.gather(1, lowered(labels, counted).gather(1, order).argsort(dim=1, descending=True, stable=True))
        scores, placed = scores.gather(1, order), counted.gather(1, order)
        after = lowered(scores, placed).flip(1).logcumsumexp(1).flip(1)
        terms = (after - scores).masked_fill(~placed, 0.0)
        return weighted_mean(terms.sum(1), counted.any(1), batch.weights)


@dataclass(frozen=True)
class AdrMse(Listwise):
    """Squared differences of approximate and true ranks, each divided by log2(1 + true rank), averaged over documents.

    A rank is approximated by 1 plus the sum of sigmoid(alpha * (other score - score)) over the other documents.
    Documents with equal labels share the mean of their ranks.

    Source: Schlatt et al., Rank-DistiLLM (ECIR 2025), ADR-MSE. Ties are handled as in sentence-transformers'
    `ADRMSELoss`.

    Attributes:
        alpha: steepness of the sigmoid.
    """

    name: ClassVar[str] = "adr-mse"

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alpha > 0:
            raise errors.PluginError(f"{self.name}: alpha must be above 0, not {self.alpha}")

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        scores, labels, counted = self._labelled(batch)
        others = counted[:, None, :]
        above = ((labels[:, None, :] > labels[:, :, None]) & others).sum(2)
        equal = ((labels[:, None, :] == labels[:, :, None]) & others).sum(2)
        ranks = above + (equal + 1) / 2
        beaten = torch.sigmoid(self.alpha * (scores[:, None, :] - scores[:, :, None]))
        near = 0.5 + (beaten * others).sum(2)  # a document's sigmoid with itself is a half
        terms = (ranks - near) ** 2 / torch.log2(ranks + 1)
        return weighted_mean(terms.masked_fill(~counted, 0.0), counted, batch.weights)


@dataclass(frozen=True)
class KL:
    """The divergence KL(softmax(t) || softmax(s)) of teacher scores t and model scores s, averaged over queries.

    Stage `train` supplies the teacher's scores of each query's own documents; unscored documents are skipped. A query
    with fewer than two scored documents is skipped; the loss does not depend on which document is the positive.

    Source: Hinton et al., Distilling the Knowledge in a Neural Network (2015); for retrieval Lin et al., In-Batch
    Negatives for Knowledge Distillation with Tightly-Coupled Teachers (RepL4NLP 2021), section 3.

    Attributes:
        temperature: divisor of the model's scores; use a value below 1 for scores in a narrow range, such as cosines.
        teacher_temperature: divisor of the teacher's scores.
        probabilities: whether the teacher's scores are probabilities, which are converted to logits.
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
        """Return the loss, a scalar. Raises TrainingError if teacher scores are missing or are not probabilities."""
        scores, scored = teacher_scores("kl", batch, self.probabilities)
        scored = scored & batch.valid
        teacher = lowered(scores / self.teacher_temperature, scored).log_softmax(1)
        student = lowered(safe_scores(batch) / self.temperature, scored).log_softmax(1)
        terms = (teacher.exp() * (teacher - student)).masked_fill(~scored, 0.0)
        return weighted_mean(terms.sum(1), scored.sum(1) > 1, batch.weights)
