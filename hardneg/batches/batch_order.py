"""Which queries share a batch: the protocol of `hardneg.batches`, queries in one shuffled order, or of one source."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.records.errors import PluginError, UsageError
from hardneg.records.types import RankedList
from hardneg.runtime.seeding import generator


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


def in_batches(queries: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Queries, in order, as batches of `size`: int64 [n] to [b, size].

    The last batch is filled with those before it. Where there are fewer than `size`, they come again in the one batch.
    """
    if len(queries) < size:
        return np.resize(queries, (min(1, len(queries)), size))
    whole = queries[: len(queries) // size * size].reshape(-1, size)
    return whole if whole.size == len(queries) else np.concatenate([whole, queries[None, -size:]])


def members(groups: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The chosen queries of each group that has any, by the group's number; groups: int64 [Q], chosen: int64 [C]."""
    order = chosen[groups[chosen].argsort(stable=True)]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def in_any_order(batches: Iterable[NDArray[np.int64]], source: np.random.Generator) -> NDArray[np.int64]:
    """All batches [b, size] one after the other, int64 [n], shuffled as wholes."""
    return source.permutation(np.concatenate(list(batches))).reshape(-1)


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


@dataclass(frozen=True)
class OneSource:
    """Each batch has queries of one source alone, for collections that were put together from several.

    A query's source is what the file `batches_sources` says. Without one it is the part of its id before the first
    `separator`, such as `nq` in `nq/17`. Each query comes once an epoch; the last batch of each source is filled with
    queries of it that come twice.

    Source: Nussbaum et al., Nomic Embed (2024), section 3.2: a batch has the pairs of one data source.

    Attributes:
        separator: what ends the name of the source in a query's id.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ("sources",)
    repeats: ClassVar[bool] = False

    separator: str = "/"

    def __post_init__(self) -> None:
        if not self.separator:
            raise PluginError("one-source: separator must be one character or more")

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """The number of each query's source, int64 [Q], by the alphabet. Raises UsageError where ids have no source."""
        if queries.sources is not None:
            return np.unique(np.array(queries.sources), return_inverse=True)[1].astype(np.int64)
        parts = [query_id.partition(self.separator) for query_id in queries.query_ids]
        if without := [name for name, mark, _ in parts if not mark]:
            raise UsageError(
                f"one-source: {len(without)} of {len(parts)} query ids have no {self.separator!r}, such as "
                f"{without[0]!r}: give the separator after the source's name, or a file of sources in batches_sources"
            )
        return np.unique([name for name, _, _ in parts], return_inverse=True)[1].astype(np.int64)

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """Batches of all sources in any order, int64 [n]: as many of each as its queries fill."""
        source = generator(seed, "batches", epoch)
        return in_any_order([in_batches(source.permutation(one), size) for one in members(groups, chosen)], source)
