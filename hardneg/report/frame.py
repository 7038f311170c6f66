"""What figures with two axes share: the grid, the marks beside it, and names that stand apart from each other."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hardneg.report.axis import Axis, mark_of
from hardneg.report.svg import line, words


def frame(across: Axis, upright: Axis) -> Iterator[str]:
    """Grid and marks of both axes; that from top to bottom ends where the other one's marks stand."""
    for value in upright.marks:
        yield line(across.ends, (upright.place(value),) * 2, "grid")
        yield words(0, upright.place(value) + 4, mark_of(value), kind="mark")
    bottom, top = upright.ends
    for value in across.marks:
        yield line((across.place(value),) * 2, (top, bottom), "grid")
        yield words(across.place(value), bottom + 16, mark_of(value), "middle", "mark")


def spread(places: Sequence[float], gap: float, ends: tuple[float, float]) -> list[float]:
    """Places at least `gap` apart and between the ends where there is room, in the same order, moved little."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = list(places)
    for before, after in pairwise(order):
        found[after] = max(found[after], found[before] + gap)
    if order:
        found[order[-1]] = min(found[order[-1]], max(ends[1], ends[0] + gap * (len(order) - 1)))
    for after, before in pairwise(reversed(order)):
        found[before] = min(found[before], found[after] - gap)
    return found
