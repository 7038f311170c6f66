"""Queries in one shuffled order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import TrainingQueries
from hardneg.runtime.seeding import generator


@dataclass(frozen=True)
class Shuffled:
    """Each query once an epoch, in an order that is drawn anew; a batch may have the end of one and the next's begin.

    What every training does that says nothing else.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[bool] = False

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """One group of all."""
        return np.zeros(len(queries.query_ids), np.int64)

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """A permutation of the chosen queries, int64 [C]."""
        return chosen[generator(seed, "order", epoch).permutation(len(chosen))]
