"""How fixed negatives age while the queries' encoder learns: what figure 4 of the STAR/ADORE paper draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hardneg.data.hash_index import known_to
from hardneg.indexes.ranks import best_rank, overlap
from hardneg.models.encoder import Encoder
from hardneg.protocols import DenseSearcher
from hardneg.training.examples import QueryRows
from hardneg.training.history import Record

_ROWS = 4096


@dataclass(frozen=True)
class StalenessWatch:
    """Looks at some training queries every so many steps.

    asked: the queries. lists: gives what is watched of queries with these vectors, float32 [Q, d]: int64 [Q, n], -1
    pads; positives among it are passed over. documents: how many the index holds. depth: the top of the index that
    negatives are compared with.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 8.2.
    """

    encoder: Encoder
    searcher: DenseSearcher
    documents: int
    asked: QueryRows
    lists: Callable[[NDArray[np.float32]], NDArray[np.int64]]
    every: int
    depth: int

    def __call__(self, step: int) -> Record:
        """`drift`: the negatives' mean overlap and best rank, and `mrr@10`; empty where it is not time to look."""
        if step % self.every:
            return {}
        queries = self.encoder.encode(self.asked.texts, "query")
        top = self.searcher.search(queries, max(self.depth, 10)).rows
        found = {"mrr@10": _mrr(known_to(top[:, :10], self.asked.known, self.asked.owner, len(top)))}
        watched = self.lists(queries)[:, : self.depth]
        known = known_to(watched, self.asked.known, self.asked.owner, len(watched))
        return {"drift": {**self._age(queries, top, np.where(known, -1, watched)), **found}}

    def _age(
        self, queries: NDArray[np.float32], top: NDArray[np.int64], watched: NDArray[np.int64]
    ) -> dict[str, float]:
        some = (watched >= 0).any(axis=1)
        if not some.any():
            return {}
        corpus = partial(_blocks, self.searcher, self.documents)
        best = best_rank(corpus, queries[some], watched[some], str(self.encoder.device))
        shared = overlap(watched[some], top[some, : self.depth])
        return {
            "overlap": float(shared.mean()),
            "best_rank": float(best.mean()),
            "best_rank_median": float(np.median(best)),
        }


def _mrr(positive: NDArray[np.bool_]) -> float:
    first = np.where(positive.any(axis=1), 1 / (1 + positive.argmax(axis=1)), 0.0)
    return float(first.mean())


def _blocks(searcher: DenseSearcher, documents: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, documents, _ROWS):
        yield start, searcher.vectors(np.arange(start, min(start + _ROWS, documents)))
