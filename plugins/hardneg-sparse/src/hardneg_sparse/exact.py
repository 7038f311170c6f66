"""The exact index of term weights, which multiplies queries by the stored rows, block by block."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from hardneg.plugin import errors, index_checks, protocols, records, runtime, top_k
from hardneg_sparse.store import SparseRows, SparseStore

_ROWS, _QUERIES = 2048, 512  # so many fit a CPU's caches
_WEIGHTS = 1 << 20  # in a block of documents


@dataclass(frozen=True)
class Sparse:
    """An index that stores term weights unchanged, for exact search with a learned sparse encoder."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "weights"

    def build(self, source: Path, path: Path, progress: runtime.Progress) -> int:
        """Link or copy the weights from folder `source` to folder `path`; return the number of documents."""
        store = SparseStore.open(source)
        store.link(path)
        return len(store)

    def open(self, path: Path, rows: protocols.RowLookup | None = None) -> "SparseSearcher":
        """Open the weights in folder `path`; hits are rows of documents, so `rows` is unused."""
        return SparseSearcher(SparseStore.open(path))


@dataclass(frozen=True)
class SparseSearcher(index_checks.DecodedRows):
    """A searcher on the CPU over a folder of term weights; `progress` counts the passages read."""

    store: SparseStore
    progress: runtime.Progress | None = None

    def search(self, queries: Any, k: int) -> records.Hits:
        """Return each query's k best documents by inner product; ties are broken by ascending row.

        Documents with a score of 0 or less, such as those without a common term, are not hits. Short lists are padded
        with row -1 and score -inf.

        Raises UsageError for invalid queries or a k below 1, and ArtifactError if the folder is damaged.
        """
        if not isinstance(queries, SparseRows):
            raise errors.UsageError("queries of a sparse index must be term weights; use the model that encoded it")
        queries.check(self.store.width)
        index_checks.check_depth(k)
        starts = range(0, len(queries), _QUERIES)
        parts = [queries[start : start + _QUERIES].matrix for start in starts]
        sizes = [part.shape[0] for part in parts]  # only scores above 0 enter the lists
        best = [top_k.Best(torch.zeros(n, k), torch.full((n, k), -1), torch.zeros(n, 1)) for n in sizes]
        with (
            (self.progress or runtime.Silent()).task("search", len(self.store), "passages") as task,
            torch.inference_mode(),
        ):
            for start, block in self.store.blocks(_ROWS, _WEIGHTS):
                columns = block.matrix.T.tocsr()
                for i, part in enumerate(parts):
                    best[i] = top_k.merged(best[i], torch.from_numpy((part @ columns).toarray()), start, k)
                task.advance(len(block))
            hits = top_k.best_hits(best, len(queries), k)
        hits.scores[hits.rows < 0] = -np.inf
        return hits
