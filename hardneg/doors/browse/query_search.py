"""Finding queries by words or by id, page by page, in a column of lower-cased texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PAGE = 25
"""Queries a page."""
_WORDS = 8
"""Words of a search that count: the first ones."""


@dataclass(frozen=True)
class QueryMatches:
    """One page of matches. positions: of queries among all; total: how many match. Pages count from 1."""

    positions: Sequence[int]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """How many pages there are, one at least."""
        return max(1, -(-self.total // PAGE))


@dataclass(frozen=True)
class QuerySearch:
    """Queries in their order: ids, and texts beside them, maybe empty ones."""

    query_ids: Sequence[str]
    texts: Sequence[str]

    @cached_property
    def _columns(self) -> tuple[pa.Array, pa.Array]:
        ids, texts = pa.array(self.query_ids, pa.string()), pa.array(self.texts, pa.string())
        return pc.utf8_lower(ids), pc.utf8_lower(texts)

    def page(self, wanted: str, number: int) -> QueryMatches:
        """The queries whose text holds every word, or whose id holds the whole; all of them where nothing is wanted.

        A number beyond the last page gives the last one.
        """
        words = wanted.lower().split()[:_WORDS]
        if not words:
            return self._cut(range(len(self.query_ids)), number)
        ids, texts = self._columns
        positions = pc.indices_nonzero(pc.match_substring(texts, words[0]))
        for word in words[1:]:
            positions = positions.filter(pc.match_substring(texts.take(positions), word))
        of_ids = pc.indices_nonzero(pc.match_substring(ids, wanted.lower().strip()))
        return self._cut(np.union1d(positions.to_numpy(), of_ids.to_numpy()).tolist(), number)

    def _cut(self, positions: Sequence[int], number: int) -> QueryMatches:
        last = max(1, -(-len(positions) // PAGE))
        page = min(max(1, number), last)
        return QueryMatches(positions[(page - 1) * PAGE : page * PAGE], len(positions), page)
