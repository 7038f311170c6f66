"""Negatives by their scores: below a threshold, or far enough below their query's positives."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import numpy as np

from hardneg.mining.miners.filtered import Filtered
from hardneg.mining.miners.selection import Rule, at_most, below, margin, share
from hardneg.records.errors import PluginError


@dataclass(frozen=True)
class Denoised(Filtered):
    """The top of a list without what a cross-encoder does not call a negative with confidence.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3. Its program looks at 50, keeps the first of them, and fills
    up at random from behind.

    Attributes:
        below: kept is what scores strictly less than this in the run labelled `scores`, or without one in the list.
    """

    version: ClassVar[int] = 1

    below: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self.below)

    def rule(self) -> Rule:
        return below(self.below)


@dataclass(frozen=True, kw_only=True)
class MaxScore(Filtered):
    """The top of a list without what scores more than a threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374), where the threshold is tuned.

    Attributes:
        highest: kept is what scores no more than this in the run labelled `scores`, or without one in the list.
    """

    version: ClassVar[int] = 1

    highest: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self.highest)

    def rule(self) -> Rule:
        return at_most(self.highest)


def _check(threshold: float) -> None:
    if not isfinite(threshold):
        raise PluginError(f"the threshold must be a number, not {threshold}")


@dataclass(frozen=True)
class PositiveAware(Filtered):
    """The top of a list without what scores too near to the query's positives; of several, the lowest counts.

    Attributes:
        without_positive: what becomes of a query of which no positive has a score: drop all, or keep all.
    """

    compares: ClassVar[bool] = True

    without_positive: Literal["drop", "keep"] = "drop"

    def _or_unknown(self, rule: Rule) -> Rule:
        if self.without_positive == "drop":
            return rule
        return lambda scores, positive: rule(scores, positive) | np.isnan(positive)


@dataclass(frozen=True)
class PosMargin(PositiveAware):
    """The top of a list without what scores less than a margin below the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.

    Attributes:
        margin: kept is what scores at least so much less than the positive.
    """

    version: ClassVar[int] = 1

    margin: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isfinite(self.margin):
            raise PluginError(f"margin must be a number, not {self.margin}")

    def rule(self) -> Rule:
        return self._or_unknown(margin(self.margin))


@dataclass(frozen=True)
class PosPercent(PositiveAware):
    """The top of a list without what scores more than a share of the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos.

    Attributes:
        share: kept is what scores no more than this share of the positive's score; of a score below zero, what is as
            far below it as that share of its size is below it were it above.
    """

    version: ClassVar[int] = 1

    share: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise PluginError(f"share must be above 0 and at most 1, not {self.share}")

    def rule(self) -> Rule:
        return self._or_unknown(share(self.share))
