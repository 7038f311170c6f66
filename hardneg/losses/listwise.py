"""Listwise losses: the order of all of a query's documents at once, by judgements or by a teacher's scores."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hardneg.losses.pairs import lowered, safe_scores, taught_scores, weighted_mean
from hardneg.records import errors, types


@dataclass(frozen=True)
class Listwise:
    """What listwise losses have in common: the labels of a query's documents, and which of them count.

    Attributes:
        labels: `judged`, 1 for the positive and 0 for every other document; `teacher`, a teacher's scores, where it has
            some. Queries with one document alone are left out.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = "listwise"

    labels: Literal["judged", "teacher"] = "judged"

    def __post_init__(self) -> None:
        if self.labels not in ("judged", "teacher"):
            raise errors.PluginError(f"{self.name}: labels must be judged or teacher, not {self.labels!r}")

    @property
    def needs(self) -> tuple[str, ...]:
        """A teacher's scores, where these are the labels."""
        return ("teacher",) if self.labels == "teacher" else ()

    def _labelled(self, batch: types.ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores and labels, [B, M], 0 where a document does not count, and where one does, bool [B, M]."""
        scores = safe_scores(batch)
        labels, counted = batch.positive.to(scores.dtype), batch.valid
        if self.labels == "teacher":
            labels, taught = taught_scores(self.name, batch)
            counted = counted & taught
        counted = counted & (counted.sum(1, keepdim=True) > 1)
        return scores.masked_fill(~counted, 0.0), labels.masked_fill(~counted, 0.0), counted


@dataclass(frozen=True)
class ListNet(Listwise):
    """The cross-entropy of softmax(labels) and softmax(scores) over a query's documents, averaged over queries.

    Source: Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach (ICML 2007), the cross entropy of
    top one probabilities.
    """

    name: ClassVar[str] = "listnet"

    def __call__(self, batch: types.ScoreBatch) -> Tensor:
        scores, labels, counted = self._labelled(batch)
        terms = lowered(labels, counted).softmax(1) * lowered(scores, counted).log_softmax(1)
        return weighted_mean(-terms.masked_fill(~counted, 0.0).sum(1), counted.any(1), batch.weights)


@dataclass(frozen=True)
class ListMLE(Listwise):
    """The negative log-likelihood of the labels' order under Plackett and Luce's model, averaged over queries.

    Where labels are equal, the order is the likeliest of those that they allow, which is that of the scores.

    Source: Xia et al., Listwise Approach to Learning to Rank: Theory and Algorithm (ICML 2008), the
    likelihood loss.
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
    """Squared differences of approximate and true ranks, each over log2(1 + true rank), averaged over documents.

    A rank is approximated by 1 plus the sum of sigmoid(alpha * (other score - score)) over the others; documents with
    one label share the mean of their ranks.

    Source: Schlatt et al., Rank-DistiLLM (ECIR 2025), ADR-MSE. Ties are shared as in sentence-transformers'
    `ADRMSELoss`.

    Attributes:
        alpha: how sharply ranks are told apart.
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
