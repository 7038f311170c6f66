"""Batches of queries that lie near each other, by clusters of their vectors from faiss's k-means."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import MissingDependency, PluginError, UsageError, batch_order, generator

ROUNDS = 20
"""Number of iterations of k-means."""
_BLOCK = 65_536


def k_means(
    name: str, vectors: NDArray[np.float32], count: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Cuts vectors float32 [Q, d] into clusters; `name` begins messages.

    Each round sees 256 vectors a cluster at most, drawn with the seed.

    Returns:
        int64 [Q], the number of each vector's cluster, and float32 [count, d], the centroids.

    Raises:
        MissingDependency: faiss is not installed.
        UsageError: there are more clusters than vectors.
    """
    if not 1 <= count <= len(vectors):
        raise UsageError(f"{name}: {count} clusters of {len(vectors)} queries cannot be: give 1 to {len(vectors)}")
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency(f'{name} makes clusters by faiss: pip install "hardneg[cpu]", or "[gpu]"') from error
    on_gpus = faiss.get_num_gpus() > 0
    clustering = faiss.Kmeans(
        vectors.shape[1], count, niter=ROUNDS, seed=seed % (1 << 31), min_points_per_centroid=1, gpu=on_gpus
    )
    clustering.train(np.ascontiguousarray(vectors, np.float32))
    blocks = (np.ascontiguousarray(vectors[start : start + _BLOCK]) for start in range(0, len(vectors), _BLOCK))
    cluster = np.concatenate([clustering.index.search(block, 1)[1][:, 0] for block in blocks])
    return cluster.astype(np.int64), np.asarray(clustering.centroids, np.float32).reshape(count, -1)


def joined(cluster: NDArray[np.int64], centroids: NDArray[np.float32], least: int) -> NDArray[np.int64]:
    """Joins each cluster of fewer than `least` vectors, the smallest first, with the one whose centroid is nearest.

    Args:
        cluster: int64 [Q], the number of each vector's cluster.
        centroids: float32 [k, d]; of two that are joined it is the mean of all vectors of both.
        least: how many vectors a cluster has in the end, unless it is the only one.

    Returns:
        int64 [Q], numbers from 0 without gaps.
    """
    counts, into = np.bincount(cluster, minlength=len(centroids)), np.arange(len(centroids))
    centroids, left = centroids.astype(np.float64), np.ones(len(centroids), bool)
    while left.sum() > 1 and counts[left].min() < least:
        small = int(np.where(left, counts, counts.max() + 1).argmin())
        left[small] = False
        near = int(np.where(left, ((centroids - centroids[small]) ** 2).sum(1), np.inf).argmin())
        both = counts[small] + counts[near]
        if both:
            centroids[near] += (centroids[small] - centroids[near]) * (counts[small] / both)
        counts[near] = both
        into[into == small] = near
    return np.unique(into[cluster], return_inverse=True)[1].astype(np.int64)


def path_through(centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    """A path through all clusters that begins at the first and goes from each to the nearest unvisited one.

    Args:
        centroids: float32 [k, d].

    Returns:
        int64 [k], the position of each cluster on the path.
    """
    position, left, here = np.full(len(centroids), -1, np.int64), np.ones(len(centroids), bool), 0
    squares = (centroids**2).sum(1)
    for step in range(len(centroids)):
        position[here], left[here] = step, False
        distance = squares - 2 * (centroids @ centroids[here])
        here = int(np.where(left, distance, np.inf).argmin())
    return position


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

    def groups(self, queries: batch_order.TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
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
        clusters = [source.permutation(cluster) for cluster in batch_order.members(groups, chosen)]
        full = [cluster[: len(cluster) // size * size].reshape(-1, size) for cluster in clusters]
        rest = np.concatenate([cluster[len(cluster) // size * size :] for cluster in clusters])
        if 0 < len(rest) < size:
            others = chosen[~np.isin(chosen, rest)]
            away = np.abs(groups[others] - groups[rest[-1]])
            rest = np.concatenate([rest, others[away.argsort(stable=True)[: size - len(rest)]]])
        return batch_order.in_any_order([*full, batch_order.in_batches(rest, size)], source)


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

    def groups(self, queries: batch_order.TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
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
        source, clusters = generator(seed, "batches", epoch), batch_order.members(groups, chosen)
        batches = list[NDArray[np.int64]]()
        for _ in range(-(-len(chosen) // size)):
            batch = np.empty(0, np.int64)
            while len(batch) < size:
                cluster = clusters[source.integers(len(clusters))]
                batch = np.concatenate([batch, source.choice(cluster, min(size, len(cluster)), replace=False)])
            batches.append(batch[:size])
        return np.concatenate(batches)
