"""The protocol of plugins of `hardneg.batches`, and the training queries that they get."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.records.types import RankedList


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """The training queries, Q of them, and what a plugin needs.

    positives: known relevant documents by query id. vectors: float32 [Q, d], mapped; None where not needed. run: a list
    for each query, in order, to read once; None where not needed. sources: the name of each query's source; None where
    the recipe has none.
    """

    query_ids: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    vectors: NDArray[np.float32] | None = None
    run: Iterable[RankedList] | None = None
    sources: Sequence[str] | None = None


class BatchOrder(Protocol):
    """Which queries share a batch (`hardneg.batches`).

    needs: the required fields of `TrainingQueries`: `"vectors"`, `"run"`, or none.
    takes: the optional fields that it uses: `"sources"`; a class without `takes` uses none.
    repeats: whether queries are drawn with replacement, so that an epoch has some several times and others not at all.
        Otherwise an epoch has each query, and one more than once only where a batch could not be filled without.
    """

    version: ClassVar[int]
    needs: ClassVar[tuple[str, ...]]
    repeats: ClassVar[bool]

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """The groups that orders use, such as the number of each query's cluster: int64 [Q, ...].

        One process computes them once and keeps them on disk: all processes, and a training that resumes, read the
        same. `size` is that of a batch.
        """

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """The queries of an epoch, counted from 0, in order: every `size` of them are a batch.

        Args:
            groups: the result of `groups`.
            chosen: int64 [C], ascending, the numbers of the training queries that can be used.
            size: that of a batch.

        Returns:
            int64 [n], of `chosen`; n is the same in every epoch, and a multiple of `size` where a batch must not have
            the end of one epoch and the beginning of the next. A function of the arguments alone.
        """
