"""The multi-vector index: a vector for each token of a document, searched exactly by MaxSim."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.data.token_store import TokenStore
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.exact_torch import DeviceVectors
from hardneg.indexes.multi_vector_exact import search_tokens
from hardneg.indexes.multi_vector_scores import check_tokens
from hardneg.indexes.validation import check_rows
from hardneg.progress import Progress
from hardneg.protocols import RowLookup
from hardneg.types import Encoded, Hits, TokenVectors


@dataclass(frozen=True)
class MultiVector:
    """Exact MaxSim over a vector for each token, as ColBERT scores; the folder of token vectors is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "token-vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Makes `path` an index of the token vectors in folder `source`; files are shared where the disk can."""
        store = TokenStore.open(source)
        store.link(path)
        return len(store)

    def open(self, path: Path, rows: RowLookup | None = None) -> "MultiVectorSearcher":
        """The token vectors in folder `path`; a hit's row is the document's, so `rows` is not asked."""
        return MultiVectorSearcher(TokenStore.open(path))


@dataclass(frozen=True)
class MultiVectorSearcher:
    """Searches the token vectors of a folder; `options` change the speed only, `progress` is told of each block.

    Vectors of no more than `options.resident` bytes stay on the device from the first search on.
    """

    store: TokenStore
    options: ExactOptions | None = None
    progress: Progress | None = None

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k documents of the largest MaxSim with each query, exactly; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.store.dimension, k)
        return search_tokens(self.store, wanted, k, self.options or ExactOptions(), self.progress, self._held)

    def encoded(self, rows: NDArray[np.int64]) -> TokenVectors:
        """The token vectors of the documents of rows int64 [n].

        Raises:
            UsageError: for rows that are not in the index.
        """
        check_rows(rows, len(self.store))
        return self.store.gather(rows)

    @cached_property
    def _held(self) -> DeviceVectors | None:
        options, vectors = self.options or ExactOptions(), self.store.vectors
        small = 4 * len(vectors) * vectors.dimension <= options.resident
        return DeviceVectors.load(vectors, options.where) if small else None
