"""Batches of queries that lie near each other, each query once."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import TrainingQueries
from hardneg.batches.clusters import k_means, path_through
from hardneg.batches.equal_batches import in_any_order, in_batches, members
from hardneg.runtime.seeding import generator


@dataclass(frozen=True)
class Clustered:
    """Each query once an epoch, each batch of one cluster or of clusters that lie beside each other.

    Clusters are made once, by k-means over the queries' vectors, about as many as an epoch has batches. A batch is
    filled from one cluster as long as that has enough queries. What then remains is put together along a way that goes
    from each cluster to the nearest that is left. The last batch of all is filled with queries nearby that come twice.

    Source: Morris and Rush, Contextual Document Embeddings (ICLR 2025), section 4.1.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("vectors",)
    repeats: ClassVar[bool] = False

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """The position of each query's cluster on the path, int64 [Q].

        Raises:
            MissingDependency: faiss is not installed.
        """
        assert queries.vectors is not None
        count = max(1, len(queries.vectors) // size)
        cluster, centroids = k_means("clustered", queries.vectors, count, seed)
        return path_through(centroids)[cluster]

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """Batches in any order, int64 [ceil(C / size) * size]."""
        source = generator(seed, "batches", epoch)
        clusters = [source.permutation(cluster) for cluster in members(groups, chosen)]
        full = [cluster[: len(cluster) // size * size].reshape(-1, size) for cluster in clusters]
        rest = np.concatenate([cluster[len(cluster) // size * size :] for cluster in clusters])
        if 0 < len(rest) < size:
            others = chosen[~np.isin(chosen, rest)]
            away = np.abs(groups[others] - groups[rest[-1]])
            rest = np.concatenate([rest, others[away.argsort(stable=True)[: size - len(rest)]]])
        return in_any_order([*full, in_batches(rest, size)], source)
