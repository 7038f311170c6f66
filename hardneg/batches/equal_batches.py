"""Batches of one size from lists of queries of any length."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


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
