"""The values of a fusion that are best on development queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hardneg.errors import UsageError
from hardneg.fusion.methods import WITH_WEIGHTS, Fusion
from hardneg.fusion.through_ranx import PARAMETERS
from hardneg.registry import suggestion

Grid = Mapping[str, Sequence[float]]
"""Values to try by name: of a run, whose weight they are, or `constant` or `parameter`."""

_STEPS = 10


@dataclass(frozen=True)
class Tried:
    """A fusion, and what it was worth."""

    fusion: Fusion
    worth: float


def tried(fusion: Fusion, labels: Sequence[str], grid: Grid, worth: Callable[[Fusion], float]) -> list[Tried]:
    """Every combination of the grid's values, what it does not name as in `fusion`; the best first, then the earlier.

    labels: the runs, in the order of the weights. Without a grid, all weights in tenths that sum to 1 are tried.

    Raises:
        UsageError: the grid names what the method does not have, or there is nothing to try.
    """
    found = [Tried(each, worth(each)) for each in variants(fusion, labels, grid)]
    return sorted(found, key=lambda each: -each.worth)


def variants(fusion: Fusion, labels: Sequence[str], grid: Grid) -> Iterator[Fusion]:
    """What `tried` tries, in its order; raises as it does."""
    check_grid(fusion.method, labels, grid)
    if not grid:
        for tenths in product(range(_STEPS + 1), repeat=len(labels)):
            if sum(tenths) == _STEPS:
                yield replace(fusion, weights=tuple(tenth / _STEPS for tenth in tenths))
    else:
        for values in product(*grid.values()):
            yield _with(fusion, labels, dict(zip(grid, values, strict=True)))


def check_grid(method: str, labels: Sequence[str], grid: Grid) -> None:
    """Refuses, before any work, what cannot be tried. Raises UsageError."""
    numbers = ("constant",) if method == "reciprocal-rank" else ("parameter",) if method in PARAMETERS else ()
    known = (*(labels if method in WITH_WEIGHTS else ()), *numbers)
    if not known:
        raise UsageError(f"{method} has no weights and no parameter: there is nothing to tune")
    for name, values in grid.items():
        if name not in known:
            raise UsageError(f"grid: {method} has no {name!r}{suggestion(name, known)}; it has {', '.join(known)}")
        if not values:
            raise UsageError(f"grid: {name} has no values to try")
        if name == "constant" and any(value < 0 or value != int(value) for value in values):
            raise UsageError("grid: constant takes whole numbers from 0 on")
    if not grid and method not in WITH_WEIGHTS:
        raise UsageError(f"grid: give values of `parameter` to try, the {PARAMETERS[method]} of {method}")


def _with(fusion: Fusion, labels: Sequence[str], values: Mapping[str, float]) -> Fusion:
    pairs = zip(labels, fusion.weights, strict=True)
    weights = tuple(values.get(label, weight) for label, weight in pairs)
    changed = replace(fusion, weights=weights, parameter=values.get("parameter", fusion.parameter))
    return replace(changed, constant=int(values.get("constant", fusion.constant)))
