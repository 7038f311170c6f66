"""Batch orders, selected with the option `batches`: the order of an epoch's queries determines its batches."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.records import MissingDependency, PluginError, UsageError, layout, types
from hardneg.runtime import generator

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """The Q training queries and the data that a batch order may require.

    positives: known relevant documents by query id. vectors: query vectors, float32 [Q, d], memory-mapped. run: the
    ranked list of each query, in query order. Vectors and run are None unless the batch order requires them.
    """

    query_ids: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    vectors: NDArray[np.float32] | None = None
    run: Iterable[types.RankedList] | None = None


class BatchOrder:
    """Base class for batch orders.

    Usually, an epoch contains each query once; an order may repeat queries to fill a batch, or sample them. needs:
    names of the optional fields of `TrainingQueries` that the order requires.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """Return each query's group, int64 [Q], or neighbours, int64 [Q, n], for batches of `size`; default: zeros."""
        return np.zeros(len(queries.query_ids), np.int64)

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        """Return an epoch's queries in training order, int64 [n]; consecutive blocks of `size` queries are the batches.

        The result depends only on the arguments. n is the same in all epochs, and is a multiple of `size` if no batch
        may span two epochs. groups: result of the method `groups`. chosen: int64 [C], positions of usable queries,
        ascending; the result consists of these positions. epoch: counted from 0.
        """
        raise NotImplementedError


def in_batches(queries: Rows, size: int) -> Rows:
    """Split queries, int64 [n], into batches of `size`, int64 [b, size].

    If `size` does not divide n, the last batch consists of the last `size` queries. Fewer than `size` queries are
    repeated to fill one batch; without queries, there is no batch.
    """
    if len(queries) < size:
        return np.resize(queries, (min(1, len(queries)), size))
    whole = queries[: len(queries) // size * size].reshape(-1, size)
    return whole if whole.size == len(queries) else np.concatenate([whole, queries[None, -size:]])


def members(groups: Rows, chosen: Rows) -> list[Rows]:
    """Split the queries `chosen`, int64 [C], by group, in order of group number; groups: int64 [Q], by query."""
    order = chosen[groups[chosen].argsort(stable=True)]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


@dataclass(frozen=True)
class Shuffled(BatchOrder):
    """Each query once per epoch, in random order; a batch may span two epochs."""

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        return chosen[generator(seed, "order", epoch).permutation(len(chosen))]


def k_means(name: str, vectors: NDArray[np.float32], count: int, seed: int) -> tuple[Rows, NDArray[np.float32]]:
    """Cluster vectors, float32 [Q, d]; return cluster numbers, int64 [Q], and centroids, float32 [count, d].

    Centroids are computed from at most 256 * `count` vectors, sampled with the seed. name: prefix of error messages.

    Raises:
        MissingDependency: faiss is not installed.
        UsageError: `count` is below 1 or above the number of vectors.
    """
    if not 1 <= count <= len(vectors):
        raise UsageError(f"{name}: cannot form {count} clusters from {len(vectors)} queries; use 1 to {len(vectors)}")
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency(f'{name} needs faiss: pip install "hardneg[cpu]" or "hardneg[gpu]"') from error
    options = {"niter": 20, "seed": seed % (1 << 31), "min_points_per_centroid": 1, "gpu": faiss.get_num_gpus() > 0}
    clustering = faiss.Kmeans(vectors.shape[1], count, **options)
    clustering.train(np.ascontiguousarray(vectors, np.float32))
    blocks = (np.ascontiguousarray(vectors[start : start + 65_536]) for start in range(0, len(vectors), 65_536))
    cluster = np.concatenate([clustering.index.search(block, 1)[1][:, 0] for block in blocks])
    return cluster.astype(np.int64), np.asarray(clustering.centroids, np.float32).reshape(count, -1)


def joined(cluster: Rows, centroids: NDArray[np.float32], least: int) -> Rows:
    """Merge each cluster of fewer than `least` vectors, smallest first, into the cluster with the nearest centroid.

    The centroid of a merged cluster is the mean of its vectors. cluster: int64 [Q], cluster of each vector. centroids:
    float32 [k, d]. Returns int64 [Q], cluster numbers from 0 without gaps.
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


def path_through(centroids: NDArray[np.float32]) -> Rows:
    """Return each centroid's position, int64 [k], on a greedy nearest-neighbour path that starts at the first one."""
    position, left, here = np.full(len(centroids), -1, np.int64), np.ones(len(centroids), bool), 0
    squares = (centroids**2).sum(1)
    for step in range(len(centroids)):
        position[here], left[here] = step, False
        distance = squares - 2 * (centroids @ centroids[here])
        here = int(np.where(left, distance, np.inf).argmin())
    return position


@dataclass(frozen=True)
class Clustered(BatchOrder):
    """Each query once per epoch, in batches with queries from one cluster or from neighbouring clusters.

    K-means over the query vectors forms about as many clusters as an epoch has batches. Each cluster fills as many
    whole batches as it can. The remaining queries are batched along a path that leads from each cluster to the nearest
    unvisited one. The last batch is filled by repeating nearby queries.

    Source: Morris and Rush, Contextual Document Embeddings (ICLR 2025), section 4.1.
    """

    needs: ClassVar[tuple[str, ...]] = ("vectors",)

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """Return the path position of each query's cluster, int64 [Q]. Raises MissingDependency if faiss is missing."""
        assert queries.vectors is not None
        count = max(1, len(queries.vectors) // size)
        cluster, centroids = k_means("clustered", queries.vectors, count, seed)
        return path_through(centroids)[cluster]

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        source = generator(seed, "batches", epoch)
        clusters = [source.permutation(cluster) for cluster in members(groups, chosen)]
        full = [cluster[: len(cluster) // size * size].reshape(-1, size) for cluster in clusters]
        rest = np.concatenate([cluster[len(cluster) // size * size :] for cluster in clusters])
        if 0 < len(rest) < size:
            others = chosen[~np.isin(chosen, rest)]
            away = np.abs(groups[others] - groups[rest[-1]])
            rest = np.concatenate([rest, others[away.argsort(stable=True)[: size - len(rest)]]])
        return source.permutation(np.concatenate([*full, in_batches(rest, size)])).reshape(-1)


@dataclass(frozen=True)
class TopicBalanced(BatchOrder):
    """Batches whose queries all come from one random cluster, so that the documents of a batch share a topic.

    Clusters are computed once, by k-means over the query vectors; a cluster smaller than a batch is merged into the
    nearest one. For each batch, a cluster is sampled uniformly, then queries of that cluster without replacement, so
    queries of small clusters occur more often. An epoch has the usual number of batches.

    The published code keeps small clusters and completes a batch from another random cluster. Here that happens only
    if too few queries of a cluster have negatives.

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling
    (SIGIR 2021), section 3.2, Eq. 4.

    Attributes:
        clusters: number of clusters before merging; None means one per 200 queries, as in the paper (2,000 for 400,000)
    """

    needs: ClassVar[tuple[str, ...]] = ("vectors",)

    clusters: int | None = None

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise PluginError(f"topic-balanced: clusters must be at least 1, not {self.clusters}")

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """Return the cluster of each query, int64 [Q]; each cluster has at least `size` queries.

        Raises MissingDependency if faiss is missing, and UsageError if there are more clusters than queries.
        """
        assert queries.vectors is not None
        count = self.clusters or max(1, len(queries.vectors) // 200)
        return joined(*k_means("topic-balanced", queries.vectors, count, seed), size)

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        source, clusters = generator(seed, "batches", epoch), members(groups, chosen)
        batches = list[Rows]()
        for _ in range(-(-len(chosen) // size)):
            batch = np.empty(0, np.int64)
            while len(batch) < size:
                cluster = clusters[source.integers(len(clusters))]
                batch = np.concatenate([batch, source.choice(cluster, min(size, len(cluster)), replace=False)])
            batches.append(batch[:size])
        return np.concatenate(batches)


@dataclass(frozen=True)
class HardestTogether(BatchOrder):
    """Each query once per epoch, batched with queries whose positives rank high for it in a run.

    Two queries are neighbours if the ranked list of one contains a positive that only the other has. A batch starts
    with a random query and adds the neighbours of the queries added so far, best ranked first, then further random
    queries with their neighbours. The last batch is filled by repeating queries.

    Attributes:
        depth: number of top documents per list that are searched for positives of other queries.
        neighbours: maximum number of neighbours of a query; the best-ranked are kept.
    """

    needs: ClassVar[tuple[str, ...]] = ("run",)

    depth: int = layout.LIST_DEPTH
    neighbours: int = 16

    def __post_init__(self) -> None:
        if self.depth < 1 or self.neighbours < 1:
            raise PluginError("hardest-together: depth and neighbours must be at least 1")

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """Return the neighbours of each query, best first, int64 [Q, neighbours], padded with -1."""
        assert queries.run is not None
        owners: dict[str, list[int]] = defaultdict(list)
        for number, query_id in enumerate(queries.query_ids):
            for doc_id in queries.positives.get(query_id, ()):
                owners[doc_id].append(number)
        triples = array("q")  # a query, another query with a positive in its list, and the rank from 0
        for number, ranked in enumerate(queries.run):
            for rank, doc_id in enumerate(ranked.doc_ids[: self.depth]):
                others = owners.get(doc_id, ())
                for other in () if number in others else others:
                    triples.extend((number, other, rank))
        pairs = np.frombuffer(triples, np.int64).reshape(-1, 3)
        return nearest(pairs, len(queries.query_ids), self.neighbours)

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        source, left, packed = generator(seed, "batches", epoch), np.zeros(len(groups), bool), list[int]()
        left[chosen] = True
        for start in source.permutation(chosen).tolist():
            waiting = [start]
            while waiting:
                query = waiting.pop(0)
                if not left[query]:
                    continue
                left[query] = False
                packed.append(query)
                if len(packed) % size == 0:
                    break
                waiting += [other for other in groups[query].tolist() if other >= 0 and left[other]]
        return source.permutation(in_batches(np.array(packed, np.int64), size)).reshape(-1)


def nearest(pairs: Rows, queries: int, count: int) -> Rows:
    """Return each query's `count` nearest neighbours, int64 [queries, count], padded with -1; ties by query number.

    A pair's distance is the better of its two ranks. queries: number of queries. pairs: int64 [p, 3]; each row has a
    query, a neighbour, and the neighbour's rank.
    """
    both = np.concatenate([pairs, pairs[:, [1, 0, 2]]])
    both = both[np.lexsort((both[:, 2], both[:, 1], both[:, 0]))]
    first = np.ones(len(both), bool)
    first[1:] = (both[1:, :2] != both[:-1, :2]).any(1)
    both = both[first]
    both = both[np.lexsort((both[:, 1], both[:, 2], both[:, 0]))]
    number = np.arange(len(both)) - np.searchsorted(both[:, 0], both[:, 0])
    neighbours, near = np.full((queries, count), -1, np.int64), number < count
    neighbours[both[near, 0], number[near]] = both[near, 1]
    return neighbours
