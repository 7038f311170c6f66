"""`mteb_model`: a model for `mteb.evaluate`, over hardneg's own encoding, indexes and search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hardneg.api.arguments import Where, spelled_out
from hardneg.api.workplace import Workplace
from hardneg.doors.mteb.candidate_ranking import listed_rows, rank_by_texts
from hardneg.doors.mteb.model_meta import model_meta
from hardneg.doors.mteb.system import TaskSystem
from hardneg.doors.mteb.task_texts import TaskTexts, task_texts
from hardneg.recipe.plan import Plan, make_plan
from hardneg.records.errors import MissingDependency, ModelError, UsageError
from hardneg.records.types import Hits, PluginSetting
from hardneg.store.gc_roots import begun

if TYPE_CHECKING:
    from hardneg.recipe.execute import Outcome

_AT_ONCE = 16_384
INSTALL = 'mteb\'s tasks need mteb: pip install "hardneg[mteb]"'


@spelled_out
def mteb_model(
    model: str | Path, *, index: str | Mapping[str, Any] | None = None, **where: Unpack[Where]
) -> "TaskSearcher":
    """A model for `mteb.evaluate` that encodes, indexes and searches as hardneg's commands do.

    Vectors of a corpus go into the store by content: another task over it, or the same after a stop, finds them.

    Args:
        model: a folder, a hub id or packaged:all-MiniLM-L6-v2; or an index over texts, such as bm25.
        index: what the vectors are searched in, such as hnsw, or a dict of its options with its `name`; None: all of
            them, exactly.
        where: what every function takes (`Where`).

    Raises:
        MissingDependency: mteb is not installed.
        ModelError: there is no such model.
        RecipeError: the index or the settings have mistakes.
        UsageError: the index is no name and no options, or goes with no vectors.
    """
    require_mteb()
    if not isinstance(model, str | Path) or not str(model):
        raise ModelError(f"mteb_model: model must be a folder, a hub id or an index of texts, not {model!r:.80}")
    workplace, chosen = Workplace.of(where), _index(index)
    system = TaskSystem.named(str(model), chosen, tuple(workplace.settings))
    if system.model is None and chosen is not None:
        raise UsageError(f"mteb_model: {model} is an index itself: leave index out")
    searcher = TaskSearcher(system, workplace)
    searcher.mteb_model_meta  # noqa: B018 - raises where the model is missing
    return searcher


def _index(argument: object) -> PluginSetting | None:
    if argument is None:
        return None
    options = (
        {"name": argument} if isinstance(argument, str) else dict(argument) if isinstance(argument, Mapping) else {}
    )
    name = options.pop("name", None)
    if not isinstance(name, str) or not name:
        raise UsageError(f"mteb_model: index must be a name, or a dict of options with a name, not {argument!r:.80}")
    return PluginSetting(name, options)


def require_mteb() -> None:
    """Raises MissingDependency where mteb is not installed."""
    try:
        import mteb  # noqa: F401
    except ImportError as error:
        raise MissingDependency(f"{INSTALL} ({error})") from error


@dataclass
class _Indexed:
    """A corpus that is ready to be searched; doc_ids: mteb's, by row."""

    plan: Plan
    outcome: "Outcome"
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

    @cached_property
    def mteb_model_meta(self) -> Any:
        """mteb's `ModelMeta`."""
        return model_meta(self.system)

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
        with begun(self.workplace.store, "mteb", self.workplace.store.root, list(plan.keys.values())):
            outcome = self.workplace.make(plan)
        self._indexed = _Indexed(plan, outcome, list(corpus["id"]))

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
        from hardneg.indexes.kernels.candidate_scoring import rank_candidates

        searcher = self.workplace.open_index(indexed.plan.steps[self.system.last], indexed.outcome)
        top_k, top_ranked = request
        encode: Any = list if self.system.model is None else self.workplace.query_encoder(indexed.plan)
        for start in range(0, len(texts), _AT_ONCE):
            wanted = encode(list(texts[start : start + _AT_ONCE]))
            if top_ranked is None:
                yield start, searcher.search(wanted, min(top_k, len(indexed.doc_ids)))
            else:
                candidates = listed_rows(query_ids[start : start + _AT_ONCE], top_ranked, indexed.rows)
                if self.system.model is None:
                    yield start, rank_by_texts(searcher, wanted, candidates, len(indexed.doc_ids))
                else:
                    yield start, rank_candidates(searcher, wanted, candidates, top_k)
