"""Verb `rerank`: the best documents of a run, scored anew query and document together, as a TREC run."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from hardneg.artifacts import SCRATCH
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.runs import join_runs, lists_in_order, write_run
from hardneg.digest import tree_digest
from hardneg.distributed import barrier, world
from hardneg.encoders.spec import ModelSpec
from hardneg.errors import PluginError
from hardneg.fields import FREE, Name, PluginKind, Reference, Setting, Trait
from hardneg.layout import MODEL_FOLDER, RUN
from hardneg.progress import Task
from hardneg.protocols import PLACES, Reranker, TrainableReranker
from hardneg.registry import plugin_identity
from hardneg.stages.context import Facts, StageContext
from hardneg.stages.inputs import open_collection, pass_on, queries_of
from hardneg.stages.spec import PAIR_TOKENS, PROCESS_BYTES, RecipeView, Row, RunSpec, Sizes, source_of
from hardneg.types import RankedList

if TYPE_CHECKING:
    from hardneg.rerankers.scoring import Advance, Request

_PAIRS = 4096  # of a block: what a process that is killed loses at most


class Rerank(RunSpec):
    """Scores the best documents of a run anew, query and document together.

    reranker: the stage that trained it, or plugin: one to take as it is. positives: the known positives that a list
    lacks are scored too, wherever they come to stand: for filters on training queries, never for evaluation.
    keep_scores: those of trained networks are kept by content in the user's cache, for all runs on this machine.
    """

    version = 1
    purpose = "have a reranker score what was found"
    resumes = True
    every_process = True
    stage: Literal["rerank"]
    reranker: Annotated[Name | None, Reference(("reranker",))] = None
    plugin: Annotated[Setting | None, PluginKind("rerankers")] = None
    run: Annotated[Name, Reference(("run",), passes=(Trait.ADDED_POSITIVES, Trait.OWN_QUERIES))]
    split: Name = "test"
    depth: int = Field(default=50, gt=0)
    positives: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)
    keep_scores: bool = Field(default=True, json_schema_extra=FREE)

    @model_validator(mode="after")
    def _complete(self) -> "Rerank":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("give reranker, the name of a stage that trains one, or plugin, one of them")
        return self

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Positives may stand in its lists: its own, or those that the run has."""
        own: dict[str, str] = {Trait.ADDED_POSITIVES: recipe.name} if self.positives else {}
        return {**super().traits(recipe), **own}

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """That of the plugin, where one is named."""
        return source_of(recipe.plugin("plugin"))

    def estimate(self, sizes: Sizes) -> Row:
        """One pass over all pairs."""
        count, shape = sizes.queries(self.split), sizes.network
        seconds = sizes.network_seconds(count * self.depth * PAIR_TOKENS, shape)
        return Row(count, "queries", count * self.depth * 20, PROCESS_BYTES, seconds + 5, 2 * shape.weights)

    def make(self, context: "StageContext[Rerank]") -> Facts:
        """Reranks block by block, going on behind those that are finished, and joins them in the order of the queries.

        Several processes share the blocks. A block's scores do not depend on the other blocks.
        """
        collection, here = open_collection(context.inputs["dataset"]), world()
        parts, facts = context.folder / SCRATCH, Counter({"depth": self.depth})
        queries = queries_of(context, collection, self.split)
        parts.mkdir(exist_ok=True)
        step, total = max(1, _PAIRS // self.depth), len(queries)
        mine = range(here.rank * step, total, here.size * step)
        missing = {start for start in mine if not (parts / _name(start)).exists()}
        left = sum(min(step, total - start) for start in missing)
        wanted = (block for block in _blocks(context, collection, queries, step, facts) if block.start in missing)
        blocks, ahead = tee(wanted)
        share = sum(min(step, total - start) for start in mine)
        with context.progress.task("reranking", share, "queries", done=share - left) as task:
            answers = _answers(context, collection.corpus, ahead, _speed(task))
            for block in blocks:
                write_run(parts / _name(block.start), block.entries(answers))
                task.advance(len(block.query_ids))
        barrier()
        if here.first:
            join_runs([parts / _name(start) for start in range(0, total, step)], context.folder / RUN)
            context.keep_only(RUN, SCRATCH)
            pass_on(context)
        return {name: count for name, count in facts.items() if count}


@dataclass(frozen=True)
class _QueryBlock:
    """Queries from the split's number `start` on, with the documents to score for each."""

    start: int
    query_ids: Sequence[str]
    texts: Sequence[str]
    doc_ids: Sequence[Sequence[str]]

    def requests(self, corpus: Corpus) -> "Iterator[Request]":
        """What a reranker is given."""
        contents = iter(corpus.contents(corpus.rows([doc_id for doc_ids in self.doc_ids for doc_id in doc_ids])))
        for text, doc_ids in zip(self.texts, self.doc_ids, strict=True):
            yield text, list(islice(contents, len(doc_ids)))

    def entries(self, answers: Iterator[Sequence[float]]) -> Iterator[tuple[str, RankedList]]:
        """The queries' documents with the scores that a reranker gave."""
        for query_id, doc_ids in zip(self.query_ids, self.doc_ids, strict=True):
            scores = next(answers, ())
            if len(scores) != len(doc_ids):
                counts = f"{len(scores)} scores for the {len(doc_ids)} documents of query {query_id}"
                raise PluginError(f"the reranker gave {counts}: one a document is needed, in their order")
            yield query_id, RankedList(doc_ids, np.asarray(scores, np.float32))


def _name(start: int) -> str:
    return f"{start:09d}.trec"


def _blocks(
    context: StageContext[Rerank], collection: StoredCollection, queries: Queries, step: int, facts: Counter[str]
) -> Iterator[_QueryBlock]:
    """All blocks of the run's lists, cut at the depth; facts count them and what was added."""
    known = positives(collection.all_qrels()) if context.spec.positives else {}
    lists = lists_in_order(context.inputs["run"].folder / RUN, queries.query_ids)
    for start in range(0, len(queries), step):
        query_ids = queries.query_ids[start : start + step]
        chosen = [list(ranked.doc_ids[: context.spec.depth]) for ranked in islice(lists, len(query_ids))]
        facts["queries"] += len(query_ids)
        facts["queries without candidates"] += sum(not doc_ids for doc_ids in chosen)
        for query_id, doc_ids in zip(query_ids, chosen, strict=True):
            lacking = [doc_id for doc_id in known.get(query_id, ()) if doc_id not in doc_ids]
            facts["positives that the run lacks"] += len(lacking)
            doc_ids += lacking
        facts["pairs"] += sum(map(len, chosen))
        yield _QueryBlock(start, query_ids, queries.texts[start : start + step], chosen)
    for _ in lists:
        pass


def _speed(task: Task) -> "Advance":
    """Tells how many pairs a second are scored, while a block is under way."""
    began, pairs = time.monotonic(), 0

    def advance(count: int) -> None:
        nonlocal pairs
        pairs += count
        task.describe(f"{pairs / max(time.monotonic() - began, 1e-3):.0f} pairs/s")

    return advance


def _answers(
    context: StageContext[Rerank], corpus: Corpus, blocks: Iterable[_QueryBlock], advance: "Advance"
) -> Iterator[Sequence[float]]:
    """The scores of each query of the blocks; nothing is loaded before the first is asked for."""
    from hardneg.encoders.inference import EncodeOptions
    from hardneg.rerankers.scoring import CachedScorer, CachedScores, PairScorer

    source = context.inputs.get("reranker")
    plugin = context.plugin("plugin", Reranker) if source is None else source.plugin("reranker", Reranker)
    if not isinstance(plugin, TrainableReranker):
        yield from plugin.rerank(request for block in blocks for request in block.requests(corpus))
        return
    folder = None if source is None else source.folder / MODEL_FOLDER
    options = EncodeOptions(context.spec.tokens_per_batch, context.spec.precision)
    scorer = PairScorer.of(plugin.load(folder), context.device, options)
    kept = CachedScores.of(scorer, _content(plugin, folder)) if context.spec.keep_scores else None
    asked = (block.requests(corpus) for block in blocks)
    yield from (CachedScorer(scorer, kept) if kept else scorer).rerank_blocks(asked, advance)


def _content(plugin: TrainableReranker, folder: Path | None) -> Any:
    """All that a network's scores depend on, besides the texts."""
    identity = plugin_identity(type(plugin).__qualname__, plugin)
    for place in PLACES:
        identity["options"].pop(place, None)
    return {**identity, "content": tree_digest(folder) if folder else plugin.fingerprint()}
