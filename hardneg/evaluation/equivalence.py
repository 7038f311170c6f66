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


def tost(difference: float, error: float, freedom: float, margin: float) -> float:
    """The p of a true difference of `margin` or more, up or down: the larger p of two one-sided t-tests.

    error: the standard error of the difference. Where nothing varies p is that of equal signs of all queries,
    2^-(freedom + 1), as the paired t-test has it; without degrees of freedom 1.
    """
    distance = margin - abs(difference)
    if freedom <= 0:
        return 1.0
    if error <= _TOLERANCE * max(margin, abs(difference)):
        return float(2.0 ** -(freedom + 1)) if distance > 0 else 1.0
    return float(distributions().t.sf(distance / error, freedom))


def verdict(test: _Tested, level: float) -> Verdict:
    """A difference where the tests of one are significant; else equivalent where TOST is, corrected; else undecided."""
    if test.significant(level):
        return "difference"
    return "equivalent" if test.equivalence_holm < level else "undecided"
