"""`Run`: the lists of a stored run."""

from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt

from hardneg.plugin import RankedList, run_files

DEPTH = 1000
"""Documents of a query, by default."""
_EMPTY = RankedList((), np.empty(0, np.float32))


class Run(pt.Transformer):  # type: ignore[misc]
    """The documents that a TREC run has for each query, in its order."""

    def __init__(self, path: str | Path, depth: int = DEPTH) -> None:
        """depth: how far down its lists."""
        super().__init__()
        self.path, self.depth = Path(path), depth

    @cached_property
    def lists(self) -> dict[str, RankedList]:
        """By query. Raises DataError where the run cannot be read."""
        return dict(run_files.read_run(self.path))

    def transform(self, queries: pd.DataFrame) -> pd.DataFrame:
        """Rows of documents, for rows with `qid`; ranks are counted from 0."""
        pt.validate.query_frame(queries, extra_columns=[])
        kept = queries.drop(columns=[name for name in ("docno", "score", "rank") if name in queries])
        parts = [self._hits(str(query_id)) for query_id in kept["qid"]]
        hits = pd.concat(parts) if parts else self._hits("")
        rows = kept.iloc[[i for i, part in enumerate(parts) for _ in range(len(part))]]
        return pd.concat([rows.reset_index(drop=True), hits.reset_index(drop=True)], axis=1)

    def _hits(self, query_id: str) -> pd.DataFrame:
        ranked = self.lists.get(query_id, _EMPTY)
        count = min(self.depth, len(ranked.doc_ids))
        scores = pd.Series([float(score) for score in ranked.scores[:count]], dtype=float)
        return pd.DataFrame(
            {"docno": pd.Series(ranked.doc_ids[:count], dtype=object), "score": scores, "rank": range(count)}
        )

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"
