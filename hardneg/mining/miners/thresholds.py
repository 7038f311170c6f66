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
    """The top of a list without documents that a cross-encoder does not confidently call negative.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3. Its program keeps the first of the top 50, and fills
    up at random from lower ranks.

    Attributes:
        below: keep documents that score strictly less in the run labelled `scores`, or else in the list.
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
    """The top of a list without documents that score above a threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374), where the threshold is tuned.

    Attributes:
        highest: keep documents that score no more in the run labelled `scores`, or else in the list.
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
    """The top of a list without documents that score too near to the query's lowest-scored positive.

    Attributes:
        without_positive: for a query without a scored positive, drop all candidates, or keep all.
    """

    compares: ClassVar[bool] = True

    without_positive: Literal["drop", "keep"] = "drop"

    def _or_unknown(self, rule: Rule) -> Rule:
        if self.without_positive == "drop":
            return rule
        return lambda scores, positive: rule(scores, positive) | np.isnan(positive)


@dataclass(frozen=True)
class PosMargin(PositiveAware):
    """The top of a list without documents that score less than a margin below the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.

    Attributes:
        margin: keep documents that score at least this much below the positive.
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
    """The top of a list without documents that score more than a share of the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos.

    Attributes:
        share: keep documents that score no more than this share of the positive's score; of a score s below zero,
            no more than s - (1 - share) |s|.
    """

    version: ClassVar[int] = 1

    share: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise PluginError(f"share must be above 0 and at most 1, not {self.share}")

    def rule(self) -> Rule:
        return self._or_unknown(share(self.share))
