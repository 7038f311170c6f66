"""`Retriever`: an index of hardneg and its model as one transformer."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from hardneg.plugin import (
    LaidIndex,
    ModelSpec,
    OpenedIndex,
    PluginSetting,
    UsageError,
    configure,
    laid_indexes,
    usual_store,
)
from hardneg_pyterrier.run import DEPTH

_COLUMNS = ("docno", "score", "rank")


class Retriever(pt.Transformer):  # type: ignore[misc]
    """The best documents of each query, by an index and the model that encoded it.

    The index and the model are opened with the first query.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        index: str | None = None,
        depth: int = DEPTH,
        store: str | Path | None = None,
        device: str | None = None,
    ) -> None:
        """An index of a run folder.

        index: the stage that made it; by default the one that the recipe hands out. depth: documents a query. store:
        where the recipe was run; by default hardneg's own. device: where to compute; by default the best there is.

        Raises:
            DataError: it is no run folder.
            UsageError: it has no such index.
        """
        indexes = {laid.stage: laid for laid in laid_indexes(Path(folder), usual_store(store))}
        stage = next(iter(indexes), None) if index is None else index
        if stage not in indexes:
            has = ", ".join(indexes) or "none: name the store of the recipe with `store`"
            raise UsageError(f"{folder}: no index {index or ''}; there are: {has}")
        self._hold(indexes[stage], depth, device)

    @classmethod
    def from_index(
        cls,
        folder: str | Path,
        model: str | ModelSpec | None = None,
        *,
        backend: Mapping[str, Any] | None = None,
        depth: int = DEPTH,
        device: str | None = None,
    ) -> "Retriever":
        """An index folder of `hardneg encode`, or of `hardneg index build` with its backend's name and options.

        model: what encoded it; a folder, a hub id or a whole spec. None for an index of texts.

        Raises:
            PluginError: there is no such backend.
        """
        options = dict(backend or {})
        opened = configure("indexes", PluginSetting(options.pop("name"), options)) if backend else None
        retriever, path = cls.__new__(cls), Path(folder)
        spec = ModelSpec(model) if isinstance(model, str) else model
        retriever._hold(LaidIndex(path.name, path, opened, spec, segments=False), depth, device)
        return retriever

    def _hold(self, laid: LaidIndex, depth: int, device: str | None) -> None:
        super().__init__()
        self.laid, self.depth, self.device = laid, depth, device

    @cached_property
    def opened(self) -> OpenedIndex:
        """The index and its model."""
        return OpenedIndex.open(self.laid, self.device)

    def transform(self, queries: pd.DataFrame) -> pd.DataFrame:
        """Rows of documents, for rows with `qid` and `query`; ranks are counted from 0."""
        pt.validate.query_frame(queries, extra_columns=["query"])
        kept = queries.drop(columns=[name for name in _COLUMNS if name in queries])
        if not len(kept):
            return kept.assign(docno=pd.Series(dtype=object), score=pd.Series(dtype=float), rank=pd.Series(dtype=int))
        hits = self.opened.search(kept["query"].astype(str).tolist(), self.depth)
        inside = hits.rows >= 0
        names, scores = self.opened.names, hits.scores[inside].astype(float)
        doc_ids = np.array([names[row] for row in hits.rows[inside].tolist()], object)
        positions = np.repeat(np.arange(len(kept)), inside.sum(1))
        order = np.lexsort((doc_ids, -scores, positions))  # equal scores by id, as runs are written
        ranks = np.broadcast_to(np.arange(inside.shape[1]), inside.shape)[inside]
        rows = kept.iloc[positions].reset_index(drop=True)
        return rows.assign(docno=doc_ids[order], score=scores[order], rank=ranks)

    def __repr__(self) -> str:
        return f"Retriever({str(self.laid.folder)!r}, depth={self.depth})"
