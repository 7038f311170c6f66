"""Whether two systems are equal but for a margin: two one-sided tests (TOST).

A difference that is not significant may be nothing, or may be too small for so few queries. Two systems are equivalent
where the data rule out that they differ by the margin or more, either way. Source: Schuirmann (1987), "A comparison of
the two one-sided tests procedure and the power approach for assessing the equivalence of average bioavailability",
Journal of Pharmacokinetics and Biopharmaceutics 15.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from hardneg.evaluation.intervals import distributions
from hardneg.evaluation.levels import MARGIN

Verdict = Literal["difference", "equivalent", "undecided"]
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Design:
    """What tests take for granted: the margin in which systems are equal, and the group of each query, if any."""

    margin: float = MARGIN
    groups: Mapping[str, str] | None = None


class _Tested(Protocol):
    @property
    def equivalence_holm(self) -> float: ...

    def significant(self, level: float) -> bool: ...


def tost(difference: float, error: float, freedom: float, units: int, margin: float) -> float:
    """The p of a true difference of `margin` or more, up or down: the larger p of two one-sided t-tests.

    Where no query differs there is no error to go by. Scores are at most 1, so that a difference of `margin` needs one
    query in 1 / margin: p is then the chance to meet none of these, (1 - margin)^units.

    Args:
        difference: the mean difference.
        error: its standard error.
        freedom: degrees of freedom of the error; without any p is 1.
        units: how many queries, or groups of queries, there are.
        margin: the least difference that matters.
    """
    distance = margin - abs(difference)
    if freedom <= 0 or units < 2:
        return 1.0
    if error <= _TOLERANCE * max(margin, abs(difference)):
        return float(max(0.0, 1.0 - distance) ** units) if distance > 0 else 1.0
    return float(distributions().t.sf(distance / error, freedom))


def verdict(test: _Tested, level: float) -> Verdict:
    """A difference where the tests of one are significant; else equivalent where TOST is, corrected; else undecided."""
    if test.significant(level):
        return "difference"
    return "equivalent" if test.equivalence_holm < level else "undecided"
