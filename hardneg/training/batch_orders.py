"""Which training queries share a batch: orders of an epoch's queries, chosen by name as the option `batches`."""

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
    """The training queries, Q of them, and what a plugin needs.

    positives: known relevant documents by query id. vectors: float32 [Q, d], mapped; None where not needed. run: a list
    for each query, in order, to read once; None where not needed.
    """

    query_ids: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    vectors: NDArray[np.float32] | None = None
    run: Iterable[types.RankedList] | None = None


class BatchOrder:
    """Which queries share a batch, by name an option of a training.

    needs: the required fields of `TrainingQueries`. An epoch has each query, and one more than once only where a batch
    could not be filled without, or where an order says so.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """The groups that orders of batches of `size` use: int64 [Q, ...]; one process computes and writes them."""
        return np.zeros(len(queries.query_ids), np.int64)

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        """The queries of an epoch, counted from 0, in order: every `size` of them are a batch.

        Args:
            groups: the result of `groups`.
            chosen: int64 [C], ascending, the numbers of the training queries that can be used.
            size: that of a batch.

        Returns:
            int64 [n], of `chosen`; n is the same in every epoch, and a multiple of `size` where a batch must not have
            the end of one epoch and the beginning of the next. A function of the arguments alone.
        """
        raise NotImplementedError


def in_batches(queries: Rows, size: int) -> Rows:
    """Queries, in order, as batches of `size`: int64 [n] to [b, size].

    The last batch is filled with those before it. Where there are fewer than `size`, they come again in the one batch.
    """
    if len(queries) < size:
        return np.resize(queries, (min(1, len(queries)), size))
    whole = queries[: len(queries) // size * size].reshape(-1, size)
    return whole if whole.size == len(queries) else np.concatenate([whole, queries[None, -size:]])


def members(groups: Rows, chosen: Rows) -> list[Rows]:
    """The chosen queries of each group that has any, by the group's number; groups: int64 [Q], chosen: int64 [C]."""
    order = chosen[groups[chosen].argsort(stable=True)]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


@dataclass(frozen=True)
class Shuffled(BatchOrder):
    """Each query once an epoch, in an order drawn anew; a batch may have the end of one and the next's begin."""

    def order(self, groups: Rows, chosen: Rows, size: int, *, epoch: int, seed: int) -> Rows:
        return chosen[generator(seed, "order", epoch).permutation(len(chosen))]


def k_means(name: str, vectors: NDArray[np.float32], count: int, seed: int) -> tuple[Rows, NDArray[np.float32]]:
    """Cut vectors float32 [Q, d] into clusters: the number of each one's, int64 [Q]; centroids, float32 [count, d].

    Each round sees 256 vectors a cluster at most, drawn with the seed. `name` begins messages.

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
    options = {"niter": 20, "seed": seed % (1 << 31), "min_points_per_centroid": 1, "gpu": faiss.get_num_gpus() > 0}
    clustering = faiss.Kmeans(vectors.shape[1], count, **options)
    clustering.train(np.ascontiguousarray(vectors, np.float32))
    blocks = (np.ascontiguousarray(vectors[start : start + 65_536]) for start in range(0, len(vectors), 65_536))
    cluster = np.concatenate([clustering.index.search(block, 1)[1][:, 0] for block in blocks])
    return cluster.astype(np.int64), np.asarray(clustering.centroids, np.float32).reshape(count, -1)


def joined(cluster: Rows, centroids: NDArray[np.float32], least: int) -> Rows:
    """Joins each cluster of fewer than `least` vectors, the smallest first, with the one whose centroid is nearest.

    cluster: int64 [Q], the number of each vector's cluster. centroids: float32 [k, d]; of two that are joined it is the
    mean of all vectors of both. Returns int64 [Q], numbers from 0 without gaps.
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
    """The position int64 [k] of each cluster, float32 [k, d], on a path from the first to the nearest unvisited one."""
    position, left, here = np.full(len(centroids), -1, np.int64), np.ones(len(centroids), bool), 0
    squares = (centroids**2).sum(1)
    for step in range(len(centroids)):
        position[here], left[here] = step, False
        distance = squares - 2 * (centroids @ centroids[here])
        here = int(np.where(left, distance, np.inf).argmin())
    return position


@dataclass(frozen=True)
class Clustered(BatchOrder):
    """Each query once an epoch, each batch of one cluster or of clusters that lie beside each other.

    Clusters are made once, by k-means over the queries' vectors, about as many as an epoch has batches. A batch is
    filled from one cluster as long as that has enough queries. What then remains is put together along a way that goes
    from each cluster to the nearest that is left. The last batch of all is filled with queries nearby that come twice.

    Source: Morris and Rush, Contextual Document Embeddings (ICLR 2025), section 4.1.
    """

    needs: ClassVar[tuple[str, ...]] = ("vectors",)

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """The position of each query's cluster on the path, int64 [Q]. Raises MissingDependency without faiss."""
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

    needs: ClassVar[tuple[str, ...]] = ("vectors",)

    clusters: int | None = None

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise PluginError(f"topic-balanced: clusters must be 1 or above, not {self.clusters}")

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """The number of each query's cluster, int64 [Q], each with a batch of queries or more.

        Raises MissingDependency without faiss, UsageError with more clusters than queries.
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
    """Each query once an epoch, in a batch with queries whose positives a run ranks high for it.

    Two queries are neighbours where the run ranks a positive of one for the other, and it is no positive of that one
    too. A batch begins with a random query. Neighbours of its queries are added, the best ranked first, until it is
    full, or none is left and another random query goes on. The last batch is filled with queries that come twice.

    Attributes:
        depth: how far down the lists positives of other queries are looked for.
        neighbours: how many of a query's neighbours are kept, the best ranked.
    """

    needs: ClassVar[tuple[str, ...]] = ("run",)

    depth: int = layout.LIST_DEPTH
    neighbours: int = 16

    def __post_init__(self) -> None:
        if self.depth < 1 or self.neighbours < 1:
            raise PluginError("hardest-together: depth and neighbours must be 1 or above")

    def groups(self, queries: TrainingQueries, size: int, *, seed: int) -> Rows:
        """The neighbours of each query, best first: int64 [Q, neighbours], -1 pads."""
        assert queries.run is not None
        owners: dict[str, list[int]] = defaultdict(list)
        for number, query_id in enumerate(queries.query_ids):
            for doc_id in queries.positives.get(query_id, ()):
                owners[doc_id].append(number)
        triples = array("q")  # a query, another one a positive of which is in its list, and the rank, from 0
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
    """The `count` neighbours of each query by the better rank of the two directions, ties by number.

    pairs: int64 [p, 3], a query, another one, and its rank. Returns int64 [queries, count], best first, -1 pads.
    """
    both = np.concatenate([pairs, pairs[:, [1, 0, 2]]])
    both = both[np.lexsort((both[:, 2], both[:, 1], both[:, 0]))]
    first = np.ones(len(both), bool)
    first[1:] = (both[1:, :2] != both[:-1, :2]).any(1)
    both = both[first]
    both = both[np.lexsort((both[:, 1], both[:, 2], both[:, 0]))]
    number = np.arange(len(both)) - np.searchsorted(both[:, 0], both[:, 0])
    neighbours, kept = np.full((queries, count), -1, np.int64), number < count
    neighbours[both[kept, 0], number[kept]] = both[kept, 1]
    return neighbours
