"""Which query meets which documents when: a function of the seed, the epoch and the query alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.data.corpus import Corpus
from hardneg.errors import DataError, TrainingError
from hardneg.identity import digest
from hardneg.seeding import generator


class NegativeLists(Protocol):
    """What training needs of a file of negatives; `hardneg.data.negatives.NegativesFile` is one."""

    @property
    def query_ids(self) -> list[str]:
        """The query of each row."""
        ...

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64, how many negatives each row has."""
        ...

    def pick(self, row: int, places: NDArray[np.int64]) -> list[str]:
        """The negatives of one row at the given places."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What to learn from.

    query_ids and texts: the training queries. positives: known relevant documents by query id; one is
    drawn, and none of them (nor a copy) ever counts as a negative. negatives: mined ones, if any.
    """

    corpus: Corpus
    query_ids: Sequence[str]
    texts: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    negatives: NegativeLists | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """One batch of B queries and the documents drawn for them, as rows of the corpus.

    documents: int64 [B, 1 + n], each query's positive and then its negatives.
    known: int64 [K], all known positives of all queries; owner: int64 [K], the batch row each belongs to.
    """

    query_ids: list[str]
    texts: list[str]
    documents: NDArray[np.int64]
    known: NDArray[np.int64]
    owner: NDArray[np.int64]


class Examples:
    """The queries that can be learnt from, in an endless order: one epoch's permutation after the other.

    A query's positive and its n negatives are drawn uniformly, anew in each epoch; negatives without
    replacement, unless there are fewer than n.

    skipped: how many queries were left out, and how many positives were, by reason.
    """

    def __init__(self, data: TrainingData, negatives_per_query: int, seed: int) -> None:
        self._data = data
        self._width = negatives_per_query
        self._seed = seed
        self._orders: dict[int, NDArray[np.int64]] = {}
        self._positives, self._starts, unknown = _positive_rows(data)
        has_positives = np.diff(self._starts) > 0
        self._lists, self._counts = _lists(data, negatives_per_query)
        has_negatives = self._counts >= min(1, negatives_per_query)
        skipped = {
            "queries without positives": int((~has_positives).sum()),
            "queries without negatives": int((has_positives & ~has_negatives).sum()),
            "positives that the corpus lacks": unknown,
        }
        self.skipped = {reason: count for reason, count in skipped.items() if count}
        self._queries = np.flatnonzero(has_positives & has_negatives)
        if not len(self._queries):
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            raise TrainingError(f"no query can be trained on: {reasons or 'there are none'}")

    def __len__(self) -> int:
        return len(self._queries)

    def digest(self) -> str:
        """A name for the queries, their positives, and how many negatives each has."""
        ids = [self._data.query_ids[query] for query in self._queries.tolist()]
        return digest([ids, self._positives.tolist(), self._counts.tolist(), len(self._data.corpus)])

    def draw(self, start: int, count: int) -> Draw:
        """The examples at positions `start` to `start + count` of the endless order.

        Raises:
            DataError: a negative is not in the corpus.
        """
        places = [divmod(position, len(self)) for position in range(start, start + count)]
        queries = [int(self._order(epoch)[place]) for epoch, place in places]
        draws = [self._draw(query, epoch) for query, (epoch, _) in zip(queries, places, strict=True)]
        negatives = self._rows_of([doc_id for _, doc_ids in draws for doc_id in doc_ids])
        positives = np.array([positive for positive, _ in draws], np.int64)
        known = [self._known(query) for query in queries]
        return Draw(
            [self._data.query_ids[query] for query in queries],
            [self._data.texts[query] for query in queries],
            np.column_stack([positives, negatives.reshape(count, self._width)]),
            np.concatenate(known),
            np.repeat(np.arange(count), [len(rows) for rows in known]),
        )

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if epoch not in self._orders:
            self._orders = {old: order for old, order in self._orders.items() if old == epoch - 1}
            self._orders[epoch] = generator(self._seed, "order", epoch).permutation(self._queries)
        return self._orders[epoch]

    def _known(self, query: int) -> NDArray[np.int64]:
        return self._positives[self._starts[query] : self._starts[query + 1]]

    def _draw(self, query: int, epoch: int) -> tuple[int, list[str]]:
        source = generator(self._seed, "draw", epoch, self._data.query_ids[query])
        known = self._known(query)
        positive = int(known[source.integers(len(known))])
        if not self._width or self._data.negatives is None:
            return positive, []
        count = int(self._counts[query])
        places = source.choice(count, self._width, replace=count < self._width)
        return positive, self._data.negatives.pick(int(self._lists[query]), places)

    def _rows_of(self, doc_ids: list[str]) -> NDArray[np.int64]:
        rows = self._data.corpus.rows(doc_ids)
        if (rows < 0).any():
            missing = doc_ids[int(np.argmin(rows))]
            raise DataError(f"negative {missing!r} is not in the corpus: mine again from this corpus")
        return rows


def _positive_rows(data: TrainingData) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """All positives' rows, int64 [P]; where each query's begin, int64 [Q + 1]; and how many are unknown."""
    lists = [data.positives.get(query_id, ()) for query_id in data.query_ids]
    rows = data.corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    query = np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])
    found = rows >= 0
    counts = np.bincount(query[found], minlength=len(lists))
    return rows[found], np.concatenate([[0], np.cumsum(counts)]), int((~found).sum())


def _lists(data: TrainingData, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each query's row of negatives and how many there are, int64 [Q] both; -1 and 0 where there are none."""
    rows = np.full(len(data.query_ids), -1, np.int64)
    if not wanted or data.negatives is None:
        return rows, np.zeros_like(rows)
    places = {query_id: row for row, query_id in enumerate(data.negatives.query_ids)}
    rows[:] = [places.get(query_id, -1) for query_id in data.query_ids]
    return rows, np.where(rows >= 0, np.append(data.negatives.counts, 0)[rows], 0)
