"""What every piece is given, and how it says that something does not hold."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Figures = dict[str, float | int | str]
Piece = Callable[["Setting"], Figures]


@dataclass(frozen=True)
class Setting:
    """device: `cuda` or `cpu`. small: sizes for seconds on a CPU. full: whole demos. folder: of this piece alone.

    ceilings: figures of the piece of that name, where it is done.
    """

    device: str
    small: bool
    full: bool
    folder: Path
    ceilings: Figures = field(default_factory=dict)

    @property
    def gpu(self) -> bool:
        """Whether the device has a memory of its own to measure."""
        return self.device.startswith("cuda")

    def size(self, large: int, small: int) -> int:
        """One of two."""
        return small if self.small else large


class Failed(Exception):
    """What was to hold and does not, and the figures that were measured all the same."""

    def __init__(self, said: str, figures: Figures | None = None) -> None:
        super().__init__(said)
        self.figures = figures or {}


class Skipped(Exception):
    """Why there is nothing to ask here."""


def expect(holds: bool, said: str) -> None:
    """Fails with `said` where it does not hold."""
    if not holds:
        raise Failed(said)
