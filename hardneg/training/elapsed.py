"""How long a training has taken over all of its runs, in a file beside its checkpoints."""

import math
import time
from pathlib import Path

from hardneg.atomic_write import replace_text


class Elapsed:
    """Seconds of this run, from now on, and of those before it, up to the checkpoint that it goes on from."""

    def __init__(self, folder: Path, resumed: bool) -> None:
        self._path, self._began = folder / "seconds", time.monotonic()
        self.earlier = _read(self._path) if resumed else 0.0

    def note(self) -> None:
        """Writes the sum: to be called with each checkpoint."""
        replace_text(self._path, f"{self.earlier + time.monotonic() - self._began:.3f}\n")


def _read(path: Path) -> float:
    """0 where an older hardneg wrote none, or a fault has damaged it."""
    try:
        found = float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0
    return found if math.isfinite(found) and found > 0 else 0.0
