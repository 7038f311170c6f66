"""The order of queries in each epoch, by a plugin of `hardneg.batches`."""

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import BatchOrder
from hardneg.store.digest import digest


@dataclass(frozen=True, eq=False)
class QueryOrder:
    """Which queries share a batch.

    plugin: a batch order. groups: int64 [Q, ...], its groups of the training queries. size: that of a batch.
    """

    plugin: BatchOrder
    groups: NDArray[np.int64]
    size: int

    def of(self, chosen: NDArray[np.int64], epoch: int, seed: int) -> NDArray[np.int64]:
        """The queries of an epoch, int64 [n], of those that can be learnt from, int64 [C]."""
        return self.plugin.order(self.groups, chosen, self.size, epoch=epoch, seed=seed)

    @cached_property
    def name(self) -> str:
        """A digest of the plugin and its groups."""
        plugin: Any = self.plugin
        said = [type(plugin).__qualname__, plugin.version, asdict(plugin), self.size]
        content = hashlib.blake2b(np.ascontiguousarray(self.groups, "<i8").data, digest_size=16).hexdigest()
        return digest([*said, list(self.groups.shape), content])
