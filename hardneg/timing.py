"""What operations take, summed by name."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class Seconds(dict[str, float]):
    """Seconds by operation."""

    @contextmanager
    def of(self, operation: str, without: Collection[str] = ()) -> Iterator[None]:
        """Counts what is inside as part of `operation`, less what the operations `without` take in it."""
        began = time.perf_counter() - self._sum(without)
        try:
            yield
        finally:
            self[operation] = self.get(operation, 0.0) + time.perf_counter() - self._sum(without) - began

    def _sum(self, operations: Collection[str]) -> float:
        return sum(self.get(operation, 0.0) for operation in operations)
