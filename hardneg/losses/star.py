"""STAR's loss: static hard negatives, made stable by the other documents of the batch."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from hardneg.losses.pairs import check_temperature, negatives, pair_losses, pair_mean, safe_scores
from hardneg.records.errors import PluginError
from hardneg.records.types import ScoreBatch


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
        """The loss, a scalar."""
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        hard = negatives(batch) & batch.own
        columns = batch.positive.any(0)  # that every row may use, whoever they were drawn for
        if self.hard_pairs == "all":
            columns = columns | batch.own.any(0)
        shared = negatives(batch) & columns
        if self.alpha is None:
            return pair_mean(losses, present, hard | shared, batch.weights)
        random = pair_mean(losses, present, shared & ~batch.own, batch.weights)
        return self.alpha * random + pair_mean(losses, present, hard, batch.weights)
