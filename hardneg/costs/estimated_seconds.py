"""Seconds that remember what they were estimated from, and rates that give such seconds."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, Self

Basis = Literal["measured", "stated", "data sheet", "guess", "unknown"]
"""Measured on the machine; stated by a file that is not from here; promised by the maker; assumed; not known at all."""

_WORTH_TELLING = 0.1  # of the time, for a basis to be named


class EstimatedSeconds(float):
    """Seconds that something will take. Sums and multiples keep the seconds of each basis; a plain number is a guess.

    parts: seconds by basis; they add up to the number itself.
    """

    parts: Mapping[str, float]

    def __new__(cls, parts: Mapping[str, float]) -> Self:
        """So many seconds from each basis."""
        seconds = super().__new__(cls, sum(parts.values()))
        seconds.parts = parts
        return seconds

    @classmethod
    def of(cls, seconds: float) -> "EstimatedSeconds":
        """The same; a guess where it is a plain number."""
        if isinstance(seconds, EstimatedSeconds):
            return seconds
        return EstimatedSeconds({"guess": float(seconds)} if seconds else {})

    def __add__(self, other: float) -> "EstimatedSeconds":
        """One after the other."""
        own, more = self.parts, EstimatedSeconds.of(other).parts
        return EstimatedSeconds({name: own.get(name, 0.0) + more.get(name, 0.0) for name in {**own, **more}})

    __radd__ = __add__

    def __mul__(self, times: float) -> "EstimatedSeconds":
        """So many times as long."""
        return EstimatedSeconds({name: seconds * times for name, seconds in self.parts.items()})

    __rmul__ = __mul__

    def __truediv__(self, parts: float) -> "EstimatedSeconds":
        """One of so many equal parts."""
        return self * (1 / parts)

    @property
    def bases(self) -> tuple[str, ...]:
        """What a tenth of the time or more is estimated from, the most of it first; `unknown` alone where it is NaN."""
        if math.isnan(self):
            return ("unknown",)
        names = [name for name, seconds in self.parts.items() if seconds and seconds >= _WORTH_TELLING * self]
        return tuple(sorted(names, key=lambda name: -self.parts[name]))


class Rate(NamedTuple):
    """How much is done in a second, and on what that is based."""

    a_second: float
    basis: Basis

    def seconds(self, amount: float, devices: int = 1) -> EstimatedSeconds:
        """How long so much takes on so many devices."""
        return EstimatedSeconds({self.basis: amount / (self.a_second * devices)})


UNKNOWN = Rate(math.nan, "unknown")
