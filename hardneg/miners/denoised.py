"""Negatives that a scorer is sure of: those below a threshold."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from hardneg.errors import PluginError
from hardneg.miners import rules
from hardneg.miners.filtered import Filtered
from hardneg.miners.rules import Rule


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
        """Strictly less."""
        return rules.below(self.below)


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
        """No more."""
        return rules.at_most(self.highest)


def _check(threshold: float) -> None:
    if not isfinite(threshold):
        raise PluginError(f"the threshold must be a number, not {threshold}")
