"""Metrics, their intervals and tests; the level of significance and the margin of equivalence."""

from hardneg.records import UsageError

LEVEL = 0.01
"""Where no other is said."""

MARGIN = 0.005
"""Systems whose means differ by less are equivalent, where no other margin is said."""


def known_level(level: float) -> float:
    """A level of significance. Raises UsageError where it is none."""
    if not 0 < level < 1:
        raise UsageError(f"significance level {level:g}: must be above 0 and below 1, such as 0.05")
    return level


def known_margin(margin: float) -> float:
    """A margin of equivalence. Raises UsageError where it is none."""
    if not margin > 0:
        raise UsageError(f"equivalence margin {margin:g}: must be above 0, such as {MARGIN:g}")
    return margin
