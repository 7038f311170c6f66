"""PyTerrier transformers: a stored run, an index with its model, and a reranker."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

import hardneg.plugin as hp

DEPTH = 1000
"""Default maximum number of documents per query."""
_COLUMNS = ("docno", "score", "rank")
_EMPTY = hp.RankedList((), np.empty(0, np.float32))


class Run(pt.Transformer):  # type: ignore[misc]
    """The documents of a TREC run for each query, in the order of the run."""

    def __init__(self, path: str | Path, depth: int = DEPTH) -> None:
        """Set the path of the run file. depth: maximum number of documents per query."""
        super().__init__()
        self.path, self.depth = Path(path), depth

    @cached_property
    def lists(self) -> dict[str, hp.RankedList]:
        """The ranked lists by query. Raises DataError if the run cannot be read."""
        return dict(hp.run_files.read_run(self.path))

    def transform(self, queries: pd.DataFrame) -> pd.DataFrame:
        """Return a row per query and ranked document, with ranks from 0; the column `qid` is required."""
        pt.validate.query_frame(queries, extra_columns=[])
        kept = queries.drop(columns=[name for name in _COLUMNS if name in queries])
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


class Retriever(pt.Transformer):  # type: ignore[misc]
    """Retrieval of the best documents for each query, with an index and the model that encoded it.

    The index and the model are opened at the first query.
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
        """Choose an index of a run folder.

        index: the stage of the index; by default, the published one. depth: maximum number of documents per query.
        store: the run's store; by default, hardneg's. device: by default, the best available.

        Raises:
            DataError: the folder is not a run folder.
            UsageError: the run has no such index.
        """
        indexes = {
            laid.stage: laid for laid in hp.recipes.published_indexes(Path(folder), hp.sessions.usual_store(store))
        }
        stage = next(iter(indexes), None) if index is None else index
        if stage not in indexes:
            has = ", ".join(indexes) or "none in this store; set `store` to the store of the run"
            raise hp.errors.UsageError(f"{folder}: no index{f' {index}' if index else ''}; available: {has}")
        self._hold(indexes[stage], depth, device)

    @classmethod
    def from_index(
        cls,
        folder: str | Path,
        model: str | hp.model_specs.ModelSpec | None = None,
        *,
        backend: Mapping[str, Any] | None = None,
        depth: int = DEPTH,
        device: str | None = None,
    ) -> "Retriever":
        """Choose an index folder from `hardneg encode`, or from `hardneg index build` with its backend.

        model: the model that encoded the index: a folder, a hub id or a spec; None for an index of texts.
        backend: the backend's `name` and options.

        Raises:
            PluginError: there is no such backend.
        """
        options = dict(backend or {})
        opened = (
            hp.registry.configure("indexes", hp.records.PluginSetting(options.pop("name"), options))
            if backend
            else None
        )
        retriever, path = cls.__new__(cls), Path(folder)
        spec = hp.model_specs.ModelSpec(model) if isinstance(model, str) else model
        retriever._hold(hp.recipes.PublishedIndex(path.name, path, opened, spec, segments=False), depth, device)
        return retriever

    def _hold(self, laid: hp.recipes.PublishedIndex, depth: int, device: str | None) -> None:
        super().__init__()
        self.laid, self.depth, self.device = laid, depth, device

    @cached_property
    def opened(self) -> hp.recipes.OpenedIndex:
        """The index and its model, opened at the first use."""
        return hp.recipes.OpenedIndex.open(self.laid, self.device)

    def transform(self, queries: pd.DataFrame) -> pd.DataFrame:
        """Return a row per query and document found, with ranks from 0; the columns `qid` and `query` are required."""
        pt.validate.query_frame(queries, extra_columns=["query"])
        kept = queries.drop(columns=[name for name in _COLUMNS if name in queries])
        if not len(kept):
            return kept.assign(docno=pd.Series(dtype=object), score=pd.Series(dtype=float), rank=pd.Series(dtype=int))
        hits = self.opened.search(kept["query"].astype(str).tolist(), self.depth)
        inside = hits.rows >= 0
        names, scores = self.opened.names, hits.scores[inside].astype(float)
        doc_ids = np.array([names[row] for row in hits.rows[inside].tolist()], object)
        positions = np.repeat(np.arange(len(kept)), inside.sum(1))
        order = np.lexsort((doc_ids, -scores, positions))  # ties by id, as in written runs
        ranks = np.broadcast_to(np.arange(inside.shape[1]), inside.shape)[inside]
        rows = kept.iloc[positions].reset_index(drop=True)
        return rows.assign(docno=doc_ids[order], score=scores[order], rank=ranks)

    def __repr__(self) -> str:
        return f"Retriever({str(self.laid.folder)!r}, depth={self.depth})"


class Reranker(pt.Transformer):  # type: ignore[misc]
    """Reranking of each query's documents with a reranker plugin; results are best first."""

    def __init__(self, plugin: str, *, text: str = "text", **options: Any) -> None:
        """Configure a reranker plugin, such as `cross-encoder`. text: column with the text of the documents.

        Raises:
            PluginError: there is no such reranker, or it has no such option.
        """
        super().__init__()
        self.plugin: hp.protocols.Reranker = hp.registry.configure(
            "rerankers", hp.records.PluginSetting(plugin, options)
        )
        self.text = text

    @classmethod
    def from_folder(cls, folder: str | Path, **options: Any) -> "Reranker":
        """Return a reranker from the folder of a cross-encoder that a recipe trained, with its `options`."""
        return cls("cross-encoder", source=str(folder), **options)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with new scores and ranks from 0, sorted by rank within each query; ties keep their order."""
        pt.validate.result_frame(frame, extra_columns=["query", self.text])
        if not len(frame):
            return frame.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype=int))
        groups = [np.asarray(rows) for rows in frame.groupby("qid", sort=False).indices.values()]
        requests = self._requests(frame, groups)
        parts = [
            _ranked(frame.iloc[rows], scores) for rows, scores in zip(groups, self.plugin.rerank(requests), strict=True)
        ]
        return pd.concat(parts).reset_index(drop=True)

    def _requests(self, frame: pd.DataFrame, groups: Sequence[Any]) -> Iterator[tuple[str, Sequence[str]]]:
        for rows in groups:
            part = frame.iloc[rows]
            yield str(part["query"].iloc[0]), part[self.text].astype(str).tolist()

    def __repr__(self) -> str:
        return f"Reranker({self.plugin!r})"


def _ranked(part: pd.DataFrame, scores: Sequence[float]) -> pd.DataFrame:
    values = np.asarray(scores, float)
    order = np.argsort(-values, stable=True)
    return part.iloc[order].assign(score=values[order], rank=np.arange(len(values)))
