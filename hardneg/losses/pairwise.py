"""Pointwise and pairwise losses: each document by itself, or each positive against each negative."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from hardneg.losses import pairs
from hardneg.losses.pairs import check_temperature, negatives, positive_scores, safe_scores, weighted_mean
from hardneg.records import PluginError, ScoreBatch, TrainingError


def pair_losses(scores: Tensor, batch: ScoreBatch) -> tuple[Tensor, Tensor]:
    """Return RankNet's loss for each positive and document, [B, P, M], and the mask of real positives, bool [B, P]."""
    positive, present = positive_scores(scores, batch)
    return softplus(scores[:, None, :] - positive[:, :, None]), present


def pair_mean(losses: Tensor, present: Tensor, chosen: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of `losses`, [B, P, M], over `present` positives [B, P] and `chosen` negatives [B, M]."""
    return weighted_mean(losses, present[:, :, None] & chosen[:, None, :], weights)


@dataclass(frozen=True)
class Bce:
    """Binary cross-entropy with each document's score as the logit, averaged over documents of rows with a negative.

    This loss is for rerankers, whose rows hold a query's own documents. All documents of a row have equal weight.

    Source: Nogueira and Cho, Passage Re-ranking with BERT (2019), Eq. 1.
    """

    version: ClassVar[int] = 1

    def __call__(self, batch: ScoreBatch) -> Tensor:
        scores = safe_scores(batch)
        counted = batch.valid & negatives(batch).any(1, keepdim=True)
        return weighted_mean(softplus(scores.where(~batch.positive, -scores)), counted, batch.weights)


@dataclass(frozen=True)
class TwoClass:
    """Cross-entropy of a softmax over a reranker's two outputs (not relevant, relevant).

    The score of a pair is the difference of its two outputs, so the value equals `bce`.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; the authors' code has two classes.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[int] = 2

    def __call__(self, batch: ScoreBatch) -> Tensor:
        return Bce()(batch)


@dataclass(frozen=True)
class RankNet:
    """Mean of log(1 + exp(s_negative - s_positive)) over the pairs of a positive and a negative in a batch.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 14;
    with `pairs="own"` and one negative per query, it is ANCE's loss (Xiong et al., ICLR 2021).

    Attributes:
        pairs: a query's negatives: `all` documents of the batch, its `own` mined negatives, or all `mined` negatives.
        temperature: divisor of the scores; use a value below 1 for scores in a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    pairs: Literal["all", "own", "mined"] = "all"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature("ranknet", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        of_pairs = {"all": batch.valid, "own": batch.own, "mined": batch.own.any(0)}
        return pair_mean(losses, present, negatives(batch) & of_pairs[self.pairs], batch.weights)


@dataclass(frozen=True)
class Star:
    """RankNet's loss over hard negatives and over the other documents of the batch.

    Without `alpha` it is the plain mean over all pairs, as in the authors' code: each query with every other
    query's positive and with the hard negatives. With `alpha` it is the paper's alpha * L_r + L_s: L_s is the mean over
    pairs with the query's own hard negatives, L_r the mean over pairs with the other documents of the batch.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 13 and 14.

    Attributes:
        alpha: weight of the random part L_r; None means the plain mean.
        hard_pairs: whether a query is paired with the hard negatives of the whole batch (`all`) or only its `own`.
        temperature: divisor of the scores; use a value below 1 for scores in a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    alpha: float | None = None
    hard_pairs: Literal["all", "own"] = "all"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.alpha is not None and not self.alpha >= 0:
            raise PluginError(f"star: alpha must be at least 0, not {self.alpha}")
        check_temperature("star", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        hard = negatives(batch) & batch.own
        columns = batch.positive.any(0)  # usable by every row, whichever query they were drawn for
        if self.hard_pairs == "all":
            columns = columns | batch.own.any(0)
        shared = negatives(batch) & columns
        if self.alpha is None:
            return pair_mean(losses, present, hard | shared, batch.weights)
        random = pair_mean(losses, present, shared & ~batch.own, batch.weights)
        return self.alpha * random + pair_mean(losses, present, hard, batch.weights)


@dataclass(frozen=True)
class LambdaLoss:
    """log(1 + exp(s_negative - s_positive)) per pair, times the change in MRR@cut if the two documents swap ranks.

    Stage `train-queries` supplies the ranks of the documents. A rank that is unknown or beyond `cut` adds 0 to MRR. The
    loss is the mean over the batch's queries with a pair; the authors' code divides even a short last batch by 32.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 15, after
    Burges, From RankNet to LambdaRank to LambdaMART (2010).

    Attributes:
        cut: cutoff of the metric MRR@cut; required.
        weight: `published` is |1/r_positive - 1/r_negative|, where 1/r is 0 beyond the cut; it is the change of MRR for
            a query with one positive. `exact` is the true change, which is smaller if another positive ranks higher.
        normalise: `mean` averages a query's pairs, including those of weight 0, as published; `sum` adds them up.
        temperature: divisor of the scores; use a value below 1 for scores in a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("ranks",)

    cut: int | None = None
    weight: Literal["published", "exact"] = "published"
    normalise: Literal["mean", "sum"] = "mean"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.cut is None or self.cut < 1:
            problem = "is missing" if self.cut is None else f"must be at least 1, not {self.cut}"
            raise PluginError(f"lambda: cut {problem}; set the rank cutoff, such as cut: 200")
        check_temperature("lambda", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """Return the loss, a scalar. Raises TrainingError if the batch has no ranks."""
        if batch.ranks is None:
            raise TrainingError("lambda: the batch has no ranks; use the train-queries stage or the ranknet loss")
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        paired = present[:, :, None] & negatives(batch)[:, None, :]
        changes = self._changes(batch.ranks, batch, losses.dtype)
        total = (losses * changes).masked_fill(~paired, 0.0).sum((1, 2))
        count = paired.sum((1, 2))
        each = total / count.clamp(min=1) if self.normalise == "mean" else total
        return weighted_mean(each, count > 0, batch.weights)

    def _changes(self, ranks: Tensor, batch: ScoreBatch, dtype: torch.dtype) -> Tensor:
        """Return the change of MRR for each pair, [B, P, M]; a relevant document within the cut adds 1 / rank."""
        seen = (ranks > 0) & (ranks <= (self.cut or 0))
        worth = torch.where(seen, 1 / ranks.clamp(min=1).to(dtype), 0.0)
        held, present = positive_scores(worth, batch)
        held = held.masked_fill(~present, 0.0)
        if self.weight == "published":
            return (held[:, :, None] - worth[:, None, :]).abs()
        best, column = held.max(1, keepdim=True)
        second = held.scatter(1, column, 0.0).amax(1, keepdim=True)
        others = best.expand_as(held).scatter(1, column, second)
        return (best[:, :, None] - torch.maximum(worth[:, None, :], others[:, :, None])).abs()


@dataclass(frozen=True)
class MarginMSE:
    """Mean of ((s_positive - s_negative) - (t_positive - t_negative))^2 over the pairs that the teacher scored.

    The teacher's scores come from a run, for each query's own documents, or from a guide, for all documents of the
    batch. Pairs with an unscored document are skipped. Margins are compared unscaled, so a teacher's logits suit inner
    products, but cosines need a `temperature`.

    Source: Hofstätter et al., Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation
    (2020), section 3.1. For two teachers: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with
    Balanced Topic Aware Sampling (SIGIR 2021), which adds the in-batch teacher's loss times 0.75.

    Attributes:
        temperature: divisor of the model's scores, not of the teacher's.
        probabilities: whether the teacher's scores are probabilities, which are converted to logits.
        in_batch: weight of the loss of a second teacher, the stage's guide, over all pairs of a query's positive and a
            negative of the batch; 0 turns this loss off.
        in_batch_own: whether the second teacher's loss includes a query's own negatives; in TAS-B's code only the
            first teacher scores them.
    """

    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"in_batch", "in_batch_own"})

    temperature: float = 1.0
    probabilities: bool = False
    in_batch: float = 0.0
    in_batch_own: bool = True

    def __post_init__(self) -> None:
        check_temperature("margin-mse", self.temperature)
        if not (self.in_batch >= 0 and math.isfinite(self.in_batch)):
            raise PluginError(f"margin-mse: in_batch must be at least 0, not {self.in_batch}")
        if not (self.in_batch or self.in_batch_own):
            raise PluginError("margin-mse: in_batch_own needs in_batch above 0; set in_batch, or remove in_batch_own")

    @property
    def needs(self) -> tuple[str, ...]:
        """The parts of `ScoreBatch` that the loss needs: `teacher` and, with `in_batch` above 0, `guide`."""
        return ("teacher", "guide") if self.in_batch else ("teacher",)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """Return the loss, a scalar. Raises TrainingError if teacher scores are missing or are not probabilities."""
        loss = self._margins(batch, *pairs.teacher_scores("margin-mse", batch, self.probabilities))
        if not self.in_batch:
            return loss
        scores, scored = pairs.teacher_scores("margin-mse", replace(batch, teacher=batch.guide))
        scored = scored if self.in_batch_own else scored & ~batch.own
        return loss + self.in_batch * self._margins(batch, scores, scored)

    def _margins(self, batch: ScoreBatch, teacher: Tensor, scored: Tensor) -> Tensor:
        gaps = safe_scores(batch) / self.temperature - teacher
        positive, present = positive_scores(gaps, batch)
        known, _ = positive_scores(scored.to(gaps.dtype), batch)
        paired = (present & known.bool())[:, :, None] & (negatives(batch) & scored)[:, None, :]
        squares = (positive[:, :, None] - gaps[:, None, :]).masked_fill(~paired, 0.0).square()
        return weighted_mean(squares, paired, batch.weights)


_NEAREST = 1e-6  # the least distance to a cosine of 1 or -1 that still has a gradient


@dataclass(frozen=True)
class Triplet:
    """Sum of max(0, s_negative - s_positive + margin) over all pairs of a batch, with s = 1 - arccos(cosine) / pi.

    This loss is for models with `similarity: cosine`. Each query is paired with every document of the batch except its
    known positives. With the stage's option `false_negative_mask: false`, as published, only its own positive is left
    out. Since the loss is a sum, doubling the batch size makes it about four times as large.

    The arccosine has no finite derivative at 1 and -1, so cosines within 1e-6 of 1 or -1 contribute no gradient.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track (2020), Eq. 1 to 3. The authors' code
    does not bound the gradient, which is NaN at a cosine of 1.

    Attributes:
        margin: required lead of a positive's score over a negative's score; scores are between 0 and 1.
    """

    version: ClassVar[int] = 1
    similarity: ClassVar[str] = "cosine"

    margin: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1:
            raise PluginError(f"triplet: margin must be between 0 and 1, not {self.margin}")

    def __call__(self, batch: ScoreBatch) -> Tensor:
        scores = angular(safe_scores(batch))
        positive, present = positive_scores(scores, batch)
        losses = relu(scores[:, None, :] - positive[:, :, None] + self.margin)
        paired = present[:, :, None] & negatives(batch)[:, None, :]
        each = losses.masked_fill(~paired, 0.0).sum((1, 2))
        return each.sum() if batch.weights is None else (each * batch.weights.to(each.dtype)).sum()


def angular(cosines: Tensor) -> Tensor:
    """Return 1 - arccos(cosine) / pi, between 0 and 1, without gradient within 1e-6 of a cosine of 1 or -1."""
    bounded = cosines.clamp(-1 + _NEAREST, 1 - _NEAREST)
    learnt = 1 - torch.arccos(bounded) / math.pi
    exact = 1 - torch.arccos(cosines.detach().clamp(-1, 1)) / math.pi
    return learnt + (exact - learnt.detach())
