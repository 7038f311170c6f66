"""An axis of a figure that is drawn into a page: where values stand on it, and round numbers to mark it by."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_MARKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`, which stand at `ends`; by logarithms where asked for. marks: round numbers, rising."""

    low: float
    high: float
    marks: Sequence[float]
    ends: tuple[float, float] = (0.0, 100.0)
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where a value stands."""
        ends = self.low, self.high
        low, high, value = map(log10, (*ends, value)) if self.logarithmic else (*ends, value)
        return self.ends[0] + (self.ends[1] - self.ends[0]) * ((value - low) / (high - low) if high > low else 0.5)


def axis(values: Iterable[float], ends: tuple[float, float]) -> Axis:
    """One that all values stand on, a little away from its ends, with five marks at most."""
    known = list(values)
    low, high = min(known), max(known)
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    low, high = low - room, high + room
    return Axis(low, high, _marks(low, high), ends)


def wide_axis(values: Iterable[float], ends: tuple[float, float]) -> Axis:
    """The same of values above zero, by logarithms where they differ by a factor of ten; else from zero on."""
    known = list(values)
    if min(known) <= 0 or max(known) < 10 * min(known):
        high = 1.08 * max(known) or 1.0
        return Axis(0.0, high, _marks(0.0, high), ends)
    low, high = min(known) / 1.6, max(known) * 1.6
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    decades = [10.0**power for power in powers if low <= 10.0**power <= high]
    marks = decades[:: -(-len(decades) // _MOST_MARKS) or 1]
    if len(marks) < 2:
        marks = [part * 10.0**power for power in powers for part in (1, 2, 5) if low <= part * 10.0**power <= high]
    return Axis(low, high, marks, ends, logarithmic=True)


def mark_of(value: float) -> str:
    """A mark's value as it stands beside an axis."""
    return f"{value:,.6g}".replace("-", "−")


def _marks(low: float, high: float) -> list[float]:
    """Multiples of the least round step of which at most five lie between."""
    power = 10.0 ** floor(log10((high - low) / _MOST_MARKS))
    steps = (part * power for part in _ROUND)
    step = next(step for step in steps if floor(high / step) - ceil(low / step) < _MOST_MARKS)
    return [place * step for place in range(ceil(low / step), floor(high / step) + 1)]
