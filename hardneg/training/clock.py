"""Checkpoints by the clock: how many steps may pass until the next one."""

import math
import time

from hardneg.distributed import from_first

FIRST = 10
"""Steps to take before it is known how long one takes."""


class CheckpointClock:
    """Steps that fit until a checkpoint is due, by how long they have taken so far.

    Steps cost very different times, from milliseconds to a minute: a number of them alone may leave hours to be lost.
    """

    def __init__(self, minutes: float | None) -> None:
        self._seconds = math.inf if minutes is None else 60 * minutes
        self._saved = time.monotonic()
        self._pace: float | None = None

    def fitting(self) -> int | None:
        """How many steps fit, at least one, and the same number in all processes; None where it does not matter."""
        if self._seconds == math.inf:
            return None
        here = FIRST if self._pace is None else max(1, int(self._left() / self._pace))
        return int(from_first(here))

    def stepped(self, steps: int, seconds: float) -> None:
        """Tells it what the last steps have taken."""
        self._pace = max(seconds, 1e-6) / steps

    def due(self) -> bool:
        """Whether the next step would end too late."""
        return self._left() < (self._pace or 0.0)

    def saved(self) -> None:
        """Tells it that there is a checkpoint now."""
        self._saved = time.monotonic()

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._saved)
