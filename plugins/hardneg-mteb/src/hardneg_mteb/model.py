"""`mteb_model`: a model for `mteb.evaluate`, over hardneg's own encoding, indexes and search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    DataError,
    Hits,
    ModelError,
    PluginSetting,
    Progress,
    Searcher,
    UsageError,
    Workplace,
    make_plan,
    rank_candidates,
)
from hardneg_mteb.system import TaskSystem, TaskTexts, task_texts

_AT_ONCE = 16_384
_HELD = 1 << 24  # scores at a time


def mteb_model(
    model: str | Path,
    *,
    index: str | Mapping[str, Any] | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    store: str | Path | None = None,
    device: str | None = None,
    progress: bool | Progress = False,
) -> "TaskSearcher":
    """A model for `mteb.evaluate` that encodes, indexes and searches as hardneg's commands do.

    Vectors of a corpus go into the store by content: another task over it, or the same after a stop, finds them.

    Args:
        model: a folder, a hub id or packaged:all-MiniLM-L6-v2; or an index over texts, such as bm25.
        index: what the vectors are searched in, such as hnsw, or a dict of its options with its `name`; None: all of
            them, exactly.
        settings: set any value, such as model.document_length=256.
        store: the artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        progress: whether to show bars, or what shows them.

    Raises:
        ModelError: there is no such model.
        RecipeError: the index or the settings have mistakes.
        UsageError: the index is no name and no options, or goes with no vectors.
    """
    if not isinstance(model, str | Path) or not str(model):
        raise ModelError(f"mteb_model: model must be a folder, a hub id or an index of texts, not {model!r:.80}")
    options = {} if index is None else {"name": index} if isinstance(index, str) else index
    name = options.get("name") if isinstance(options, Mapping) else None
    if index is not None and (not isinstance(name, str) or not name):
        raise UsageError(f"mteb_model: index must be a name, or a dict of options with a name, not {index!r:.80}")
    chosen = PluginSetting(name, {key: options[key] for key in options if key != "name"}) if name else None
    workplace = Workplace.of({"settings": settings, "store": store, "device": device, "progress": progress})
    searcher = task_searcher(str(model), chosen, workplace)
    if searcher.system.model is None and chosen is not None:
        raise UsageError(f"mteb_model: {model} is an index itself: leave index out")
    return searcher


def task_searcher(model: str, index: PluginSetting | None, workplace: Workplace) -> "TaskSearcher":
    """The searcher of a model, or of an index of texts (without `index`), with the settings of a workplace.

    Raises:
        ModelError, RecipeError: as `mteb_model`.
    """
    system = TaskSystem.named(model, index, tuple(workplace.settings))
    system.meta  # noqa: B018 - raises where the model is missing
    return TaskSearcher(system, workplace)


@dataclass
class _Indexed:
    """A corpus that is ready to be searched; doc_ids: mteb's, by row."""

    plan: Any
    outcome: Any
    doc_ids: Sequence[str]

    @cached_property
    def rows(self) -> dict[str, int]:
        return {doc_id: row for row, doc_id in enumerate(self.doc_ids)}


@dataclass
class TaskSearcher:
    """mteb's `SearchProtocol`: `index` takes a task's corpus, `search` its queries."""

    system: TaskSystem
    workplace: Workplace
    _indexed: _Indexed | None = None

    @property
    def mteb_model_meta(self) -> Any:
        """mteb's `ModelMeta`."""
        return self.system.meta

    def index(self, corpus: Any, *, task_metadata: Any, **_: Any) -> None:
        """Encodes and indexes a corpus, as far as the store lacks it.

        Args:
            corpus: a `datasets.Dataset` with `id`, `text` and maybe `title`.
            task_metadata: mteb's `TaskMetadata`.

        Raises:
            HardnegError: it cannot be encoded; a next call resumes.
        """
        texts = TaskTexts(task_texts(corpus, task_metadata, "document"))
        plan = make_plan(self.system.recipe(task_metadata, texts))
        self._indexed = _Indexed(plan, self.workplace.make(plan), list(corpus["id"]))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """The best `top_k` documents of each query with their scores: of the corpus, or of those in `top_ranked`.

        Args:
            queries: a `datasets.Dataset` with `id`, `text` and maybe `instruction`.
            task_metadata: mteb's `TaskMetadata`.
            top_ranked: documents by query, as tasks of reranking give them.

        Raises:
            UsageError: no corpus was indexed.
        """
        if (indexed := self._indexed) is None:
            raise UsageError("search: no corpus is indexed: call index first")
        query_ids, texts = list(queries["id"]), task_texts(queries, task_metadata, "query")
        scored: dict[str, dict[str, float]] = {query_id: {} for query_id in query_ids}
        for start, hits in self._hits(indexed, query_ids, texts, (top_k, top_ranked)):
            for query_id, rows, scores in zip(query_ids[start:], hits.rows, hits.scores, strict=False):
                best = rows[:top_k][rows[:top_k] >= 0].tolist()
                scored[query_id] = dict(zip((indexed.doc_ids[row] for row in best), scores.tolist(), strict=False))
        return scored

    def _hits(
        self,
        indexed: _Indexed,
        query_ids: Sequence[str],
        texts: Sequence[str],
        request: tuple[int, Mapping[str, Sequence[str]] | None],
    ) -> Iterator[tuple[int, Hits]]:
        searcher = self.workplace.open_index(indexed.plan.steps[self.system.last], indexed.outcome)
        top_k, top_ranked = request
        encode: Any = list if self.system.model is None else self.workplace.query_encoder(indexed.plan)
        for start in range(0, len(texts), _AT_ONCE):
            wanted = encode(list(texts[start : start + _AT_ONCE]))
            if top_ranked is None:
                yield start, searcher.search(wanted, min(top_k, len(indexed.doc_ids)))
                continue
            candidates = listed_rows(query_ids[start : start + _AT_ONCE], top_ranked, indexed.rows)
            if self.system.model is None:
                yield start, _rank_by_texts(searcher, wanted, candidates, len(indexed.doc_ids))
            else:
                yield start, rank_candidates(searcher, wanted, candidates, top_k)


def listed_rows(
    query_ids: Sequence[str], top_ranked: Mapping[str, Sequence[str]], rows: Mapping[str, int]
) -> NDArray[np.int64]:
    """The documents of each query as rows, int64 [Q, C], padded with -1; a query without a list has none.

    Raises:
        DataError: the corpus lacks one.
    """
    lists = [list(dict.fromkeys(top_ranked.get(query_id) or ())) for query_id in query_ids]
    if lacking := next((doc_id for listed in lists for doc_id in listed if doc_id not in rows), None):
        raise DataError(f"the task lists document {lacking!r}, and its corpus has none of this id")
    candidates = np.full((len(lists), max(map(len, lists), default=0)), -1, np.int64)
    for row, listed in enumerate(lists):
        candidates[row, : len(listed)] = [rows[doc_id] for doc_id in listed]
    return candidates


def _rank_by_texts(searcher: Searcher, texts: Sequence[str], candidates: NDArray[np.int64], documents: int) -> Hits:
    """All listed documents by their scores in an index of texts; 0 where one shares no word with its query."""
    scores = np.full(candidates.shape, -np.inf, np.float32)
    step = max(1, _HELD // max(1, documents))
    for start in range(0, len(texts), step):
        hits = searcher.search(list(texts[start : start + step]), documents)
        for query, (rows, values) in enumerate(zip(hits.rows, hits.scores, strict=True), start):
            known = np.zeros(documents + 1, np.float32)  # the last one is that of the padding
            known[rows] = values
            scores[query] = np.where(candidates[query] < 0, -np.inf, known[candidates[query]])
    order = np.lexsort((candidates, -scores))
    return Hits(np.take_along_axis(candidates, order, 1), np.take_along_axis(scores, order, 1))
