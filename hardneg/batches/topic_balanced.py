"""Topic-aware batches: the queries of one random cluster."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import TrainingQueries
from hardneg.batches.clusters import joined, k_means
from hardneg.batches.equal_batches import members
from hardneg.records.errors import PluginError
from hardneg.runtime.seeding import generator

_QUERIES_A_CLUSTER = 200


@dataclass(frozen=True)
class TopicBalanced:
    """Each batch has queries of one random cluster, so that its documents are of one topic.

    Clusters are made once, by k-means over the queries' vectors; one with fewer queries than a batch is joined with the
    nearest. A batch draws a cluster, all being equally likely however many queries they have, and then queries of it
    without replacement. An epoch has as many batches as the queries fill. A query of a small cluster comes more often
    than one of a large cluster.

    The published program keeps small clusters and fills a batch up from another one, drawn in the same way. That is
    done here where so few queries of a cluster have negatives that they do not fill a batch.

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling
    (SIGIR 2021), section 3.2, Eq. 4.

    Attributes:
        clusters: how many, before small ones are joined; none is one for 200 queries, as the paper's 2,000 clusters of
            400,000 queries.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("vectors",)
    repeats: ClassVar[bool] = True

    clusters: int | None = None

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise PluginError(f"topic-balanced: clusters must be 1 or above, not {self.clusters}")

    def refuses(self, queries: int) -> str | None:
        """Why at most `queries` queries cannot be grouped so."""
        if self.clusters is None or self.clusters <= queries:
            return None
        return f"topic-balanced: {self.clusters} clusters of {queries} queries cannot be: give 1 to {queries}"

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """The number of each query's cluster, int64 [Q], each with a batch of queries or more.

        Raises:
            MissingDependency: faiss is not installed.
            UsageError: there are more clusters than queries.
        """
        assert queries.vectors is not None
        count = self.clusters or max(1, len(queries.vectors) // _QUERIES_A_CLUSTER)
        return joined(*k_means("topic-balanced", queries.vectors, count, seed), size)

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """Batches that are drawn one by one, int64 [ceil(C / size) * size]."""
        source, clusters = generator(seed, "batches", epoch), members(groups, chosen)
        batches = (_drawn(clusters, size, source) for _ in range(-(-len(chosen) // size)))
        return np.concatenate(list(batches))


def _drawn(clusters: list[NDArray[np.int64]], size: int, source: np.random.Generator) -> NDArray[np.int64]:
    """One batch, int64 [size]."""
    batch = np.empty(0, np.int64)
    while len(batch) < size:
        cluster = clusters[source.integers(len(clusters))]
        batch = np.concatenate([batch, source.choice(cluster, min(size, len(cluster)), replace=False)])
    return batch[:size]
