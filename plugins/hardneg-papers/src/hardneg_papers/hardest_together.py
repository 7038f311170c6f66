"""Batches of queries whose positives are each other's hard negatives."""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import PluginError, batch_order, generator


@dataclass(frozen=True)
class HardestTogether:
    """Each query once an epoch, in a batch with queries whose positives a run ranks high for it.

    Two queries are neighbours where the run ranks a positive of one for the other, and it is no positive of that one
    too. A batch begins with a random query. Neighbours of its queries are added, the best ranked first, until it is
    full, or none is left and another random query goes on. The last batch is filled with queries that come twice.

    Attributes:
        depth: how far down the lists positives of other queries are looked for.
        neighbours: how many of a query's neighbours are kept, the best ranked.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("run",)
    repeats: ClassVar[bool] = False

    depth: int = 100
    neighbours: int = 16

    def __post_init__(self) -> None:
        wrong = [f"{name} must be 1 or above" for name in ("depth", "neighbours") if getattr(self, name) < 1]
        if wrong:
            raise PluginError(f"hardest-together: {'; '.join(wrong)}")

    def groups(self, queries: batch_order.TrainingQueries, size: int, *, seed: int) -> NDArray[np.int64]:
        """The neighbours of each query, best first: int64 [Q, neighbours], -1 pads."""
        triples = array("q")
        for pair in _ranked_positives(queries, self.depth):
            triples.extend(pair)
        pairs = np.frombuffer(triples, np.int64).reshape(-1, 3)
        return nearest(pairs, len(queries.query_ids), self.neighbours)

    def order(
        self, groups: NDArray[np.int64], chosen: NDArray[np.int64], size: int, *, epoch: int, seed: int
    ) -> NDArray[np.int64]:
        """Batches in any order, int64 [ceil(C / size) * size]."""
        source = generator(seed, "batches", epoch)
        packed = _packed(groups, source.permutation(chosen), size)
        return batch_order.in_any_order([batch_order.in_batches(packed, size)], source)


def _ranked_positives(queries: batch_order.TrainingQueries, depth: int) -> Iterator[tuple[int, int, int]]:
    """A query, another one a positive of which is in its list, and the rank, from 0."""
    assert queries.run is not None
    owners: dict[str, list[int]] = defaultdict(list)
    for number, query_id in enumerate(queries.query_ids):
        for doc_id in queries.positives.get(query_id, ()):
            owners[doc_id].append(number)
    for number, ranked in enumerate(queries.run):
        for rank, doc_id in enumerate(ranked.doc_ids[:depth]):
            others = owners.get(doc_id, ())
            if number not in others:
                yield from ((number, other, rank) for other in others)


def nearest(pairs: NDArray[np.int64], queries: int, count: int) -> NDArray[np.int64]:
    """The neighbours of each query by the better rank of the two directions, ties by number.

    Args:
        pairs: int64 [p, 3], a query, another one, and its rank.
        queries: how many there are.
        count: how many neighbours to keep.

    Returns:
        int64 [queries, count], best first, -1 pads.
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


def _packed(neighbours: NDArray[np.int64], shuffled: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The queries in an order of which every `size` are a batch, int64 [C]."""
    left = np.zeros(len(neighbours), bool)
    left[shuffled] = True
    packed = list[int]()
    for start in shuffled.tolist():
        waiting = [start]
        while waiting:
            query = waiting.pop(0)
            if not left[query]:
                continue
            left[query] = False
            packed.append(query)
            if len(packed) % size == 0:
                break
            waiting += [other for other in neighbours[query].tolist() if other >= 0 and left[other]]
    return np.array(packed, np.int64)
