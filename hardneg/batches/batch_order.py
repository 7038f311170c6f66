"""The shape of plugins of `hardneg.batches`, and what they are told of the training queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.records.types import RankedList


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """The training queries, Q of them, and what a plugin has asked for.

    positives: known relevant documents by query id. vectors: float32 [Q, d], mapped; None where not asked for. run: a
    list a query, in their order, to be read once; None where not asked for. sources: the name of each query's source;
    None where the recipe does not give them.
    """

    query_ids: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    vectors: NDArray[np.float32] | None = None
    run: Iterable[RankedList] | None = None
    sources: Sequence[str] | None = None


class BatchOrder(Protocol):
    """Which queries share a batch (`hardneg.batches`).

    needs: what of `TrainingQueries` it cannot do without: `"vectors"`, `"run"`, or nothing.
    takes: what it has a use for where a recipe gives it: `"sources"`; a class that has no `takes` has none.
    repeats: whether queries are drawn with replacement, so that an epoch has some several times and others not at all.
        Otherwise an epoch has each query, and one more than once only where a batch could not be filled without.
    """

    version: ClassVar[int]
    needs: ClassVar[tuple[str, ...]]
    repeats: ClassVar[bool]

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """What orders are made of, such as the number of each query's cluster: int64 [Q, ...].

        It is made once, by one process, and kept on disk: all processes, and a training that is gone on with, read the
        same. `size` is that of a batch.
        """

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """The queries of an epoch, counted from 0, in order: every `size` of them are a batch.

        Args:
            groups: what `groups` gave.
            chosen: int64 [C], ascending, the places among the training queries of those that can be learnt from.
            size: that of a batch.

        Returns:
            int64 [n], of `chosen`; n is the same in every epoch, and a multiple of `size` where a batch must not have
            the end of one epoch and the beginning of the next. A function of the arguments alone.
        """
