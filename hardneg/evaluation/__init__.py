"""Metrics, confidence intervals and significance tests, with the default significance level and margin."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand
from hardneg.records import UsageError

if TYPE_CHECKING:
    from hardneg.evaluation import fusion, metrics, metrics_json, significance

__getattr__ = partial(on_demand, __name__)

LEVEL = 0.01
"""The default significance level."""

MARGIN = 0.005
"""The default margin of equivalence: a difference of means that is too small to matter."""


def known_level(level: float) -> float:
    """Return `level` unchanged. Raises UsageError unless this significance level is above 0 and below 1."""
    if not 0 < level < 1:
        raise UsageError(f"significance level {level:g}: must be above 0 and below 1, such as 0.05")
    return level


def known_margin(margin: float) -> float:
    """Return `margin` unchanged. Raises UsageError unless this equivalence margin is above 0."""
    if not margin > 0:
        raise UsageError(f"equivalence margin {margin:g}: must be above 0, such as {MARGIN:g}")
    return margin
