"""Clusters of vectors by faiss's k-means, with small ones joined; a path through clusters, each near the last."""

import numpy as np
from numpy.typing import NDArray

from hardneg.records.errors import MissingDependency, UsageError

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
