"""MaxSim in two stages: candidates by single vectors, then exact MaxSim among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.data.flat import FlatVectors
from hardneg.data.token_store import TokenStore
from hardneg.errors import UsageError
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.multi_vector import MultiVectorSearcher
from hardneg.indexes.multi_vector_candidates import by_pooled, by_tokens, search_candidates, write_pooled
from hardneg.indexes.multi_vector_scores import check_tokens
from hardneg.progress import Progress
from hardneg.protocols import RowLookup
from hardneg.types import Encoded, Hits, TokenVectors

_POOLED = "pooled"


@dataclass(frozen=True)
class MultiVectorTwoStage:
    """MaxSim among candidates only, which a search among single vectors finds.

    Args:
        candidates: how many documents of a query are scored by MaxSim; a search for more takes as many.
        by: `pooled` finds the documents whose mean token vector is nearest to the query's; `tokens` those that hold
            the nearest vectors of its tokens, by an exact search among all of them.
        nearest: with `tokens`, how many vectors are found for each token of a query.
    """

    candidates: int = 1000
    by: Literal["pooled", "tokens"] = "pooled"
    nearest: int = 128

    version: ClassVar[int] = 1
    input: ClassVar[str] = "token-vectors"

    def __post_init__(self) -> None:
        for name in ("candidates", "nearest"):
            if getattr(self, name) < 1:
                raise UsageError(f"multi-vector-two-stage: {name} is {getattr(self, name)}: it must be at least 1")

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Makes `path` an index of the token vectors in folder `source`, with pooled ones beside them if need be."""
        store = TokenStore.open(source)
        store.link(path)
        if self.by == "pooled":
            write_pooled(store, path / _POOLED, progress)
        return len(store)

    def open(self, path: Path, rows: RowLookup | None = None) -> "TwoStageSearcher":
        """The index in folder `path`; a hit's row is the document's, so `rows` is not asked."""
        pooled = FlatVectors.open(path / _POOLED) if self.by == "pooled" else None
        return TwoStageSearcher(MultiVectorSearcher(TokenStore.open(path)), pooled, self)


@dataclass(frozen=True)
class TwoStageSearcher:
    """Finds candidates, among `pooled` vectors where there are any, and ranks them by what `exact` holds."""

    exact: MultiVectorSearcher
    pooled: FlatVectors | None
    settings: MultiVectorTwoStage
    options: ExactOptions | None = None
    progress: Progress | None = None

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k candidates of the largest MaxSim with each query; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.exact.store.dimension, k)
        count = min(max(k, self.settings.candidates), len(self.exact.store))
        return search_candidates(self.exact, wanted, k, count, self._candidates)

    def encoded(self, rows: NDArray[np.int64]) -> TokenVectors:
        """The token vectors of the documents of rows int64 [n].

        Raises:
            UsageError: for rows that are not in the index.
        """
        return self.exact.encoded(rows)

    def _candidates(self, queries: TokenVectors, count: int) -> NDArray[np.int64]:
        options = self.options or ExactOptions()
        if self.pooled is not None:
            return by_pooled(self.pooled, queries, count, options, self.progress)
        return by_tokens(self.exact.store, queries, self.settings.nearest, count, options)
