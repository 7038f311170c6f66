"""The exact index of weights of terms: no structure but the rows themselves, multiplied block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.sparse_store import SparseStore
from hardneg.indexes.kernels.checks import check_rows
from hardneg.indexes.kernels.exact.begun_pass import BegunPass, best_of, kept_best
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
    """Exact search over the weights of terms that a learned sparse encoder gives; their folder is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "weights"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Makes `path` an index of the weights in folder `source`; files are shared where the disk can."""
        store = SparseStore.open(source)
        store.link(path)
        return len(store)

    def open(self, path: Path, rows: RowLookup | None = None) -> "SparseSearcher":
        """The weights in folder `path`; a hit's row is the text's, so `rows` is not asked."""
        return SparseSearcher(SparseStore.open(path))


@dataclass(frozen=True)
class SparseSearcher:
    """Searches the weights of a folder, on the CPU; `progress` is told of each block.

    rows: these alone are searched. begun: as in `ExactOptions`.
    """

    store: SparseStore
    progress: Progress | None = None
    rows: range | None = None
    begun: Path | None = None

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k documents of the largest inner product with each query, exactly; ties by ascending row.

        A document that scores 0 or less, as one does that shares no term with the query, is no hit.

        Raises:
            UsageError: for texts or vectors, other terms, or k below 1.
            ArtifactError: what is in the folder is damaged.
        """
        if not isinstance(queries, SparseRows):
            raise UsageError("a sparse index searches with weights of terms: use the model that encoded it")
        check_weights(queries, self.store.width, k)
        starts = range(0, len(queries), _QUERIES)
        parts = [as_matrix(queries[start : start + _QUERIES]) for start in starts]
        rows, device = self._searched, torch.device("cpu")
        begun = BegunPass(self.begun, f"weights-{_QUERIES}-{rows.start}-{len(rows)}")
        best = [best_of(begun.state(i), device) or _none_yet(part.shape[0], k) for i, part in enumerate(parts)]
        with (self.progress or Silent()).task("search", len(rows), "passages") as task, torch.inference_mode():
            begun.tell(task)
            for start, block in self.store.blocks(_ROWS, _WEIGHTS, rows[begun.done :]):
                columns = as_matrix(block).T.tocsr()
                for i, part in enumerate(parts):
                    best[i] = merged(best[i], torch.from_numpy((part @ columns).toarray()), start, k)
                begun.at(start + len(block) - rows.start, lambda: (kept_best(mine, k) for mine in best))
                task.advance(len(block))
            hits = best_hits(best, len(queries), k)
        hits.scores[hits.rows < 0] = -np.inf
        return hits

    @property
    def _searched(self) -> range:
        return range(len(self.store)) if self.rows is None else self.rows

    def encoded(self, rows: NDArray[np.int64]) -> SparseRows:
        """The weights of these rows, int64 [n].

        Raises:
            UsageError: for rows that are not in the index.
            ArtifactError: what is in the folder is damaged.
        """
        check_rows(rows, len(self.store))
        return self.store.gather(rows)


def _none_yet(queries: int, k: int) -> Best:
    """Candidates that whatever scores above 0 pushes out."""
    return Best(torch.zeros(queries, k), torch.full((queries, k), -1), torch.zeros(queries, 1))
