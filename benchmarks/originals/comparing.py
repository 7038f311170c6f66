"""What is compared, and how far two computations of one thing are apart."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Differences = tuple[float, float | None]
"""Of one case: the largest difference of the values, and of the gradients; None where there are none."""


@dataclass(frozen=True)
class Item:
    """One thing that a program and hardneg both compute.

    check: the differences of each case, for the folder of the program. within: the largest that counts as rounding.
    """

    name: str
    original: str
    ours: str
    check: Callable[[Path], Iterator[Differences]]
    within: float = 1e-8


@dataclass(frozen=True)
class Row:
    """What an item came to: the largest differences over its cases; problem: why it could not be compared."""

    item: Item
    cases: int = 0
    value: float = 0.0
    gradient: float | None = None
    problem: str = ""

    @property
    def equal(self) -> bool:
        """Whether there was a case, and each was equal to rounding."""
        return self.cases > 0 and not self.problem and max(self.value, self.gradient or 0.0) <= self.item.within

    def written(self) -> str:
        """The row of the table."""
        verdict = self.problem or ("equal" if self.equal else "differs")
        gradient = "" if self.gradient is None else f"{self.gradient:.1e}"
        cells = [self.item.name, f"`{self.item.original}`", self.item.ours, self.cases, f"{self.value:.1e}", gradient]
        return "| " + " | ".join(map(str, [*cells, verdict])) + " |"


HEAD = "| item | original | hardneg | cases | value | gradient | |\n|---|---|---|---|---|---|---|"


def compared(item: Item, folder: Path) -> Row:
    """Runs an item's cases. Whatever the program raises is the row's problem: it is not ours."""
    values, gradients = list[float](), list[float]()
    try:
        with warnings.catch_warnings(action="ignore"):
            for value, gradient in item.check(folder):
                values.append(value)
                gradients += [] if gradient is None else [gradient]
    except Exception as error:
        return Row(item, len(values), problem=f"not compared: {type(error).__name__}: {error}".replace("|", "/"))
    worst = [float("nan") if any(each != each for each in some) else max(some) for some in (values, gradients) if some]
    return Row(item, len(values), *worst)


def both(theirs: Callable[..., Any], ours: Callable[..., Any], given: Sequence[Tensor]) -> Differences:
    """The differences of two losses and of their gradients to each of the tensors that they are given."""
    (one, slopes), (other, more) = (_learnt(loss, given) for loss in (theirs, ours))
    return abs(one - other), max(float((slope - again).abs().max()) for slope, again in zip(slopes, more, strict=True))


def _learnt(loss: Callable[..., Any], given: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    value = loss(*leaves)
    return float(value.detach()), torch.autograd.grad(value, leaves)
