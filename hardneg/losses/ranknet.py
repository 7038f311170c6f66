"""RankNet's pairwise loss."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from hardneg.losses.pairs import check_temperature, negatives, pair_losses, pair_mean, safe_scores
from hardneg.records.types import ScoreBatch


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
        """The loss, a scalar."""
        losses, present = pair_losses(safe_scores(batch) / self.temperature, batch)
        of_pairs = {"all": batch.valid, "own": batch.own, "mined": batch.own.any(0)}
        return pair_mean(losses, present, negatives(batch) & of_pairs[self.pairs], batch.weights)
