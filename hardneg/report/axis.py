"""The axes of a figure that is drawn into a page, with round numbers as marks, grid, and names that stand apart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10

from hardneg.report.svg import line, words

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_MARKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, drawn at `ends`. marks: round numbers, rising."""

    low: float
    high: float
    marks: Sequence[float]
    ends: tuple[float, float] = (0.0, 100.0)
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value."""
        ends = self.low, self.high
        low, high, value = map(log10, (*ends, value)) if self.logarithmic else (*ends, value)
        return self.ends[0] + (self.ends[1] - self.ends[0]) * ((value - low) / (high - low) if high > low else 0.5)


def axis(values: Iterable[float], ends: tuple[float, float]) -> Axis:
    """Return an axis for all values, with some room at its ends and five marks at most."""
    known = list(values)
    low, high = min(known), max(known)
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    low, high = low - room, high + room
    return Axis(low, high, _marks(low, high), ends)


def wide_axis(values: Iterable[float], ends: tuple[float, float]) -> Axis:
    """Return a logarithmic axis where positive values differ by a factor of ten, else one from zero."""
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
    """Return a mark's value as text."""
    return f"{value:,.6g}".replace("-", "−")


def frame(across: Axis, upright: Axis) -> Iterator[str]:
    """Yield grid and marks of both axes."""
    for value in upright.marks:
        yield line(across.ends, (upright.at(value),) * 2, "grid")
        yield words(0, upright.at(value) + 4, mark_of(value), look="mark")
    bottom, top = upright.ends
    for value in across.marks:
        yield line((across.at(value),) * 2, (top, bottom), "grid")
        yield words(across.at(value), bottom + 16, mark_of(value), "middle", "mark")


def spread(positions: Sequence[float], gap: float, ends: tuple[float, float]) -> list[float]:
    """Return positions at least `gap` apart and between the ends if there is room, in the same order, moved little."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    moved = list(positions)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    if order:
        moved[order[-1]] = min(moved[order[-1]], max(ends[1], ends[0] + gap * (len(order) - 1)))
    for after, before in pairwise(reversed(order)):
        moved[before] = min(moved[before], moved[after] - gap)
    return moved


def _marks(low: float, high: float) -> list[float]:
    """Multiples of the smallest round step with at most five of them between."""
    power = 10.0 ** floor(log10((high - low) / _MOST_MARKS))
    steps = (part * power for part in _ROUND)
    step = next(step for step in steps if floor(high / step) - ceil(low / step) < _MOST_MARKS)
    return [multiple * step for multiple in range(ceil(low / step), floor(high / step) + 1)]
