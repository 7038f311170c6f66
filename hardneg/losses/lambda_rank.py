"""LambdaLoss: RankNet's pairs, each weighted by what swapping the two documents does to the metric."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hardneg.losses.pairs import check_temperature, negatives, pair_losses, positive_scores, safe_scores, weighted_mean
from hardneg.records.errors import PluginError, TrainingError
from hardneg.records.types import ScoreBatch


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
        """The loss, a scalar.

        Raises:
            TrainingError: the batch has no ranks.
        """
        if batch.ranks is None:
            raise TrainingError("lambda: the batch has no ranks: use it in stage train-queries, or take loss ranknet")
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        paired = present[:, :, None] & negatives(batch)[:, None, :]
        changes = self._changes(batch.ranks, batch, losses.dtype)
        total = (losses * changes).masked_fill(~paired, 0.0).sum((1, 2))
        pairs = paired.sum((1, 2))
        each = total / pairs.clamp(min=1) if self.normalise == "mean" else total
        return weighted_mean(each, pairs > 0, batch.weights)

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
