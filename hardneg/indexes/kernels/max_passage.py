"""Documents ranked by the best of their vectors, in an index with several per document."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.segments import document_rows
from hardneg.indexes.kernels.checks import check_depth, check_encoded, no_hits
from hardneg.protocols import Searcher
from hardneg.records import Encoded, Hits

_EACH = 8  # vectors of a document, at most, among the best in most lists
_HITS = 1 << 26  # of vectors, held at a time
_POOLED = 1 << 20  # of them, ranked at a time


def pooled(searcher: Searcher, folder: Path, doc_ids: Sequence[str]) -> Searcher:
    """Return a searcher of documents for an index folder's vectors; doc_ids: those of the corpus.

    Where each document has one vector it is `searcher` itself, else no `DenseSearcher`: a document has no vector.

    Raises:
        ArtifactError: the index is one of another corpus.
    """
    first = document_rows(folder, doc_ids)
    return searcher if first is None else PooledSearcher(searcher, first)


@dataclass(frozen=True)
class PooledSearcher:
    """Searches the vectors with `searcher` and ranks documents: a hit's row is its document's number.

    first: int64 [D + 1], the row of each document's first vector, and the number of vectors.
    """

    searcher: Searcher
    first: NDArray[np.int64]

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k documents of the largest maximum over their vectors; ties by ascending row, at rank k too.

        Exactly so where `searcher` is exact: a document has at most m vectors, so the best k * m hold k documents.
        Where m is large, fewer are searched first, and more for the queries whose lists have less than k documents.

        Raises:
            UsageError: for texts, k below 1, or what `searcher` refuses.
        """
        check_depth(k)
        wanted = check_encoded("an index of segments is searched", queries)
        most = max(1, min(k * self._most, int(self.first[-1])))
        depth = min(most, k * _EACH) if k < len(self.first) - 1 else most
        hits = self._search(wanted, k, depth)
        while depth < most and len(short := np.flatnonzero(hits.rows[:, -1] < 0)):
            depth = min(2 * depth, most)
            more = self._search(wanted[short], k, depth)
            hits.rows[short], hits.scores[short] = more.rows, more.scores
        return hits

    def _search(self, queries: Encoded, k: int, depth: int) -> Hits:
        """The documents of the best `depth` vectors, the first k of them."""
        pooled = no_hits(len(queries), k)
        step = max(1, _HITS // depth)
        for start in range(0, len(queries), step):
            hits = self.searcher.search(queries[start : start + step], depth)
            self._pool(hits, Hits(pooled.rows[start : start + step], pooled.scores[start : start + step]))
        return pooled

    @cached_property
    def _most(self) -> int:
        return int(np.diff(self.first).max(initial=1))

    def _pool(self, hits: Hits, out: Hits) -> None:
        step = max(1, _POOLED // max(1, hits.rows.shape[1]))
        for start in range(0, len(hits.rows), step):
            part = slice(start, start + step)
            documents = np.searchsorted(self.first, hits.rows[part], "right") - 1
            pooled = first_of_each(Hits(documents, hits.scores[part]), out.rows.shape[1])
            out.rows[part], out.scores[part] = pooled.rows, pooled.scores


def first_of_each(hits: Hits, k: int) -> Hits:
    """The first k different rows of each list, padded to k where there are fewer; -1 is no row."""
    order = np.argsort(hits.rows, axis=1, stable=True)
    ordered = np.take_along_axis(hits.rows, order, 1)
    new = np.ones_like(ordered, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = np.zeros_like(new)
    np.put_along_axis(keep, order, new & (ordered >= 0), 1)
    rank = np.cumsum(keep, 1) - 1
    line, column = np.nonzero(keep & (rank < k))
    first = no_hits(len(hits.rows), k)
    first.rows[line, rank[line, column]] = hits.rows[line, column]
    first.scores[line, rank[line, column]] = hits.scores[line, column]
    return first
