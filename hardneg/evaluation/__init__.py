"""Metrics, their intervals and tests; the level of significance and the margin of equivalence."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand
from hardneg.records import UsageError

if TYPE_CHECKING:
    from hardneg.evaluation import fusion, metrics, metrics_json, significance

__getattr__ = partial(on_demand, __name__)

LEVEL = 0.01
"""The default level of significance."""

MARGIN = 0.005
"""The default margin of equivalence: a difference of means that is too small to matter."""


def known_level(level: float) -> float:
    """Return a significance level. Raises UsageError if the level is not between 0 and 1."""
    if not 0 < level < 1:
        raise UsageError(f"significance level {level:g}: must be above 0 and below 1, such as 0.05")
    return level


def known_margin(margin: float) -> float:
    """Return an equivalence margin. Raises UsageError if the margin is not above 0."""
    if not margin > 0:
        raise UsageError(f"equivalence margin {margin:g}: must be above 0, such as {MARGIN:g}")
    return margin
