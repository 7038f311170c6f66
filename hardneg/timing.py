"""What operations take, summed by name."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Seconds(dict[str, float]):
    """Seconds by operation."""

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Counts what is inside as part of `operation`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self[operation] = self.get(operation, 0.0) + time.perf_counter() - began
