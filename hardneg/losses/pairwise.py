"""Pointwise and pairwise losses: each document by itself, or each positive against each negative."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from hardneg.losses import pairs
from hardneg.losses.pairs import check_temperature, negatives, positive_scores, safe_scores, weighted_mean
from hardneg.records import PluginError, ScoreBatch, TrainingError


@dataclass(frozen=True)
class Bce:
    """Binary cross-entropy of each document's score as a logit, averaged over all documents of rows with a negative.

    Made for rerankers, whose rows hold a query's own documents; 1 positive and 4 negatives count a fifth each.

    Source: Nogueira and Cho, Passage Re-ranking with BERT (2019), Eq. 1.
    """

    version: ClassVar[int] = 1

    def __call__(self, batch: ScoreBatch) -> Tensor:
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
        return Bce()(batch)


@dataclass(frozen=True)
class RankNet:
    """Mean of log(1 + exp(s_negative - s_positive)) over the pairs of a batch.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 14;
    with `pairs="own"` and one negative a query it is ANCE's loss (Xiong et al., ICLR 2021).

    Attributes:
        pairs: a query's negatives: `all` documents of the batch, its `own` mined ones, or those `mined` for any query.
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    pairs: Literal["all", "own", "mined"] = "all"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature("ranknet", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        losses, present = pairs.pair_losses(safe_scores(batch) / self.temperature, batch)
        of_pairs = {"all": batch.valid, "own": batch.own, "mined": batch.own.any(0)}
        return pairs.pair_mean(losses, present, negatives(batch) & of_pairs[self.pairs], batch.weights)


@dataclass(frozen=True)
class Star:
    """RankNet's loss over hard negatives and over the other documents of the batch.

    Without `alpha` it is one plain mean over all pairs, as in the authors' program: each query
    with every other query's positive and with the hard negatives. With `alpha` it is the paper's
    alpha * L_r + L_s: L_s the mean over the pairs with the query's own hard negatives, L_r the
    mean over those with the other documents of the batch.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives
    (SIGIR 2021), Eq. 13 and 14.

    Attributes:
        alpha: weight of the random part L_r; none means the plain mean.
        hard_pairs: `all` pairs a query with the hard negatives of every query in the batch, `own`
            with its own only.
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such
            as cosines.
    """

    version: ClassVar[int] = 1

    alpha: float | None = None
    hard_pairs: Literal["all", "own"] = "all"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.alpha is not None and not self.alpha >= 0:
            raise PluginError(f"star: alpha must be 0 or above, not {self.alpha}")
        check_temperature("star", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        losses, present = pairs.pair_losses(safe_scores(batch) / self.temperature, batch)
        hard = negatives(batch) & batch.own
        columns = batch.positive.any(0)  # that every row may use, whoever they were drawn for
        if self.hard_pairs == "all":
            columns = columns | batch.own.any(0)
        shared = negatives(batch) & columns
        if self.alpha is None:
            return pairs.pair_mean(losses, present, hard | shared, batch.weights)
        random = pairs.pair_mean(losses, present, shared & ~batch.own, batch.weights)
        return self.alpha * random + pairs.pair_mean(losses, present, hard, batch.weights)


@dataclass(frozen=True)
class LambdaLoss:
    """log(1 + exp(s_negative - s_positive)) of each pair, times the change of MRR@cut if the two swap ranks.

    Needs the ranks of the documents, as stage `train-queries` gives them. A rank beyond `cut`, or an unknown one, is
    worth nothing. The batch's loss is the mean over its queries that have a pair, however many they are; the authors'
    program divides by 32 for a shorter last batch too.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 15, after
    Burges, From RankNet to LambdaRank to LambdaMART (2010).

    Attributes:
        cut: how many ranks the metric MRR@cut looks at; there is no default.
        weight: `published` takes |1/r_positive - 1/r_negative|, each rank beyond the cut counted as 0, which is the
            change of MRR for a query with one positive; `exact` takes the change itself, which is smaller where
            another positive ranks higher.
        normalise: a query's loss is the `mean` over its pairs, also those of weight 0, as published, or their `sum`.
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("ranks",)

    cut: int | None = None
    weight: Literal["published", "exact"] = "published"
    normalise: Literal["mean", "sum"] = "mean"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.cut is None or self.cut < 1:
            problem = "is missing" if self.cut is None else f"must be 1 or above, not {self.cut}"
            raise PluginError(f"lambda: cut {problem}: give the number of ranks that count, such as cut: 200")
        check_temperature("lambda", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar. Raises TrainingError where the batch has no ranks."""
        if batch.ranks is None:
            raise TrainingError("lambda: the batch has no ranks: use it in stage train-queries, or take loss ranknet")
        losses, present = pairs.pair_losses(safe_scores(batch) / self.temperature, batch)
        paired = present[:, :, None] & negatives(batch)[:, None, :]
        changes = self._changes(batch.ranks, batch, losses.dtype)
        total = (losses * changes).masked_fill(~paired, 0.0).sum((1, 2))
        count = paired.sum((1, 2))
        each = total / count.clamp(min=1) if self.normalise == "mean" else total
        return weighted_mean(each, count > 0, batch.weights)

    def _changes(self, ranks: Tensor, batch: ScoreBatch, dtype: torch.dtype) -> Tensor:
        """The weight of each pair, [B, P, M]; a relevant document at a rank up to the cut is worth 1 / rank."""
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
