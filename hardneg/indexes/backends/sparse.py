"""The exact index of term weights: no structure but the rows themselves, multiplied block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from hardneg.formats.vectors.sparse_store import SparseStore
from hardneg.indexes.kernels.checks import DecodedRows
from hardneg.indexes.kernels.exact.top_k import Best, best_hits, merged
from hardneg.indexes.kernels.sparse_products import as_matrix, check_weights
from hardneg.records.errors import UsageError
from hardneg.records.types import Encoded, Hits, SparseRows
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress, Silent

_ROWS, _QUERIES = 2048, 512  # what fits a CPU's caches
_WEIGHTS = 1 << 20  # of a block of documents


@dataclass(frozen=True)
class Sparse:
    """Exact search over the term weights of a learned sparse encoder; their folder is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "weights"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Build an index of the weights in folder `source` in folder `path`, by hard links where possible."""
        store = SparseStore.open(source)
        store.link(path)
        return len(store)

    def open(self, path: Path, rows: RowLookup | None = None) -> "SparseSearcher":
        """Open the weights in folder `path`; a hit's row is the text's, and `rows` is unused."""
        return SparseSearcher(SparseStore.open(path))


@dataclass(frozen=True)
class SparseSearcher(DecodedRows):
    """Searches the weights of a folder, on the CPU; `progress` counts the blocks."""

    store: SparseStore
    progress: Progress | None = None

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k documents of the largest inner product with each query, exactly; ties by ascending row.

        A document that scores 0 or less, as one does that shares no term with the query, is no hit.

        Raises:
            UsageError: for texts or vectors, other terms, or k below 1.
            ArtifactError: the folder is damaged.
        """
        if not isinstance(queries, SparseRows):
            raise UsageError("a sparse index searches with weights of terms: use the model that encoded it")
        check_weights(queries, self.store.width, k)
        starts = range(0, len(queries), _QUERIES)
        parts = [as_matrix(queries[start : start + _QUERIES]) for start in starts]
        sizes = [part.shape[0] for part in parts]  # only scores above 0 enter the lists
        best = [Best(torch.zeros(n, k), torch.full((n, k), -1), torch.zeros(n, 1)) for n in sizes]
        with (self.progress or Silent()).task("search", len(self.store), "passages") as task, torch.inference_mode():
            for start, block in self.store.blocks(_ROWS, _WEIGHTS):
                columns = as_matrix(block).T.tocsr()
                for i, part in enumerate(parts):
                    best[i] = merged(best[i], torch.from_numpy((part @ columns).toarray()), start, k)
                task.advance(len(block))
            hits = best_hits(best, len(queries), k)
        hits.scores[hits.rows < 0] = -np.inf
        return hits
