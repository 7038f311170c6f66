"""ANCE's loss: the negative log-likelihood of the positive among its own negatives."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairs import check_temperature
from hardneg.types import ScoreBatch


@dataclass(frozen=True)
class Nll:
    """-log softmax of each query's positive against the negatives mined for that query, averaged over queries.

    It is `infonce` with `negatives: own`. With one negative a query, as ANCE has it, it is log(1 + exp(s_negative -
    s_positive)).

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), Eq. 8 with the NLL loss of section 4.

    Attributes:
        temperature: what scores are divided by first; below 1 for scores of a narrow range, such as cosines.
    """

    version: ClassVar[int] = 1

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature("nll", self.temperature)

    def __call__(self, batch: ScoreBatch) -> Tensor:
        """The loss, a scalar."""
        return InfoNCE(self.temperature, "own")(batch)
