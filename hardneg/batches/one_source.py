"""Batches of queries of one source."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import TrainingQueries
from hardneg.batches.equal_batches import in_any_order, in_batches, members
from hardneg.records.errors import PluginError, UsageError
from hardneg.runtime.seeding import generator


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
        """The number of each query's source, int64 [Q], by the alphabet.

        Raises:
            UsageError: ids have no source.
        """
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
