"""`mteb_model`: a model for `mteb.evaluate` that uses hardneg's encoding, indexes and search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hardneg.plugin as hp
from hardneg_mteb.system import TaskSystem, TaskTexts, task_texts

_AT_ONCE = 16_384


def mteb_model(
    model: str | Path,
    *,
    index: str | Mapping[str, Any] | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    store: str | Path | None = None,
    device: str | None = None,
    progress: bool | hp.runtime.Progress = False,
) -> "TaskSearcher":
    """Return a model for `mteb.evaluate` that encodes, indexes and searches like hardneg's commands.

    Vectors of a corpus are stored by content, so other tasks with the same corpus and resumed runs reuse them.

    Args:
        model: a folder, a hub id or packaged:all-MiniLM-L6-v2; or an index of texts, such as bm25.
        index: an index of the vectors, such as hnsw, or a dict with its `name` and options; None for exact search.
        settings: recipe settings, such as model.document_length=256.
        store: the artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1 or mps; default the best available.
        progress: whether to show progress bars, or an object that shows progress.

    Raises:
        ModelError: there is no such model.
        RecipeError: the index or the settings have mistakes.
        UsageError: `index` is neither a name nor a dict with a name, or `model` is already an index.
    """
    if not isinstance(model, str | Path) or not str(model):
        raise hp.errors.ModelError(
            f"mteb_model: model must be a folder, a hub id or an index of texts, not {model!r:.80}"
        )
    options = {} if index is None else {"name": index} if isinstance(index, str) else index
    name = options.get("name") if isinstance(options, Mapping) else None
    if index is not None and (not isinstance(name, str) or not name):
        raise hp.errors.UsageError(
            f"mteb_model: index must be a name, or a dict with a name and options, not {index!r:.80}"
        )
    chosen = hp.records.PluginSetting(name, {key: options[key] for key in options if key != "name"}) if name else None
    session = hp.sessions.Session.of({"settings": settings, "store": store, "device": device, "progress": progress})
    system = TaskSystem.named(str(model), chosen, tuple(session.settings))
    system.meta  # noqa: B018 - raises if the model is missing
    if system.model is None and chosen is not None:
        raise hp.errors.UsageError(f"mteb_model: model {model} is already an index; remove index")
    return TaskSearcher(system, session)


@dataclass
class TaskSearcher:
    """Implementation of mteb's `SearchProtocol`: `index` receives a task's corpus, `search` its queries."""

    system: TaskSystem
    session: hp.sessions.Session
    _plan: Any = None
    _outcome: Any = None
    _doc_ids: Sequence[str] = ()  # mteb's, by row

    @property
    def mteb_model_meta(self) -> Any:
        """The system's metadata as mteb's `ModelMeta`; see `TaskSystem.meta`."""
        return self.system.meta

    def index(self, corpus: Any, *, task_metadata: Any, **_: Any) -> None:
        """Encode and index a corpus for later calls of `search`, unless its index is in the store.

        Args:
            corpus: a `datasets.Dataset` with `id`, `text` and optionally `title`.
            task_metadata: mteb's `TaskMetadata`.

        Raises:
            HardnegError: the corpus cannot be encoded; the next call resumes.
        """
        texts = TaskTexts(task_texts(corpus, task_metadata, "document"))
        self._plan = hp.recipes.make_plan(self.system.recipe(task_metadata, texts))
        self._outcome, self._doc_ids = self.session.make(self._plan), list(corpus["id"])

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the scores of the best `top_k` documents of each query, by query id and document id.

        Args:
            queries: a `datasets.Dataset` with `id`, `text` and optionally `instruction`.
            task_metadata: mteb's `TaskMetadata`.
            top_ranked: the documents to rank, by query id, in reranking tasks; None for the whole corpus.

        Raises:
            UsageError: no corpus was indexed, or `top_ranked` is passed to an index of texts.
        """
        if self._outcome is None:
            raise hp.errors.UsageError("search: no corpus is indexed; call index first")
        if top_ranked is not None and self.system.model is None:
            raise hp.errors.UsageError("search: an index of texts cannot rerank documents; use a model")
        query_ids, texts = list(queries["id"]), task_texts(queries, task_metadata, "query")
        scored: dict[str, dict[str, float]] = {query_id: {} for query_id in query_ids}
        searcher = self.session.open_index(self._plan.steps[self.system.last], self._outcome)
        encode: Any = list if self.system.model is None else self.session.query_encoder(self._plan)
        row_of = {} if top_ranked is None else {doc_id: row for row, doc_id in enumerate(self._doc_ids)}
        for start in range(0, len(texts), _AT_ONCE):
            some, wanted = query_ids[start : start + _AT_ONCE], encode(list(texts[start : start + _AT_ONCE]))
            if top_ranked is None:
                hits = searcher.search(wanted, min(top_k, len(self._doc_ids)))
            else:
                hits = hp.rank_candidates(searcher, wanted, listed_rows(some, top_ranked, row_of), top_k)
            for query_id, rows, scores in zip(some, hits.rows, hits.scores, strict=True):
                best = rows[:top_k][rows[:top_k] >= 0].tolist()
                scored[query_id] = dict(zip((self._doc_ids[row] for row in best), scores.tolist(), strict=False))
        return scored


def listed_rows(
    query_ids: Sequence[str], top_ranked: Mapping[str, Sequence[str]], rows: Mapping[str, int]
) -> NDArray[np.int64]:
    """Return each query's listed documents as row numbers from `rows`, int64 [Q, C], padded with -1.

    Raises:
        DataError: a document is not in the corpus.
    """
    lists = [list(dict.fromkeys(top_ranked.get(query_id) or ())) for query_id in query_ids]
    if lacking := next((doc_id for listed in lists for doc_id in listed if doc_id not in rows), None):
        raise hp.errors.DataError(f"the task lists document {lacking!r}, which is not in its corpus")
    candidates = np.full((len(lists), max(map(len, lists), default=0)), -1, np.int64)
    for row, listed in enumerate(lists):
        candidates[row, : len(listed)] = [rows[doc_id] for doc_id in listed]
    return candidates
