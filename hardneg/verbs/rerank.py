"""Verb `rerank`: the best documents of a run, scored anew query and document together, as a TREC run."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from hardneg.encoders.spec import Attention, ModelSpec
from hardneg.fields import FREE, LATER, SPLIT, Name, PluginKind, Reference, Setting, Trait
from hardneg.records.depths import LIST_DEPTH
from hardneg.records.errors import PluginError
from hardneg.records.layout import MODEL_FOLDER, RUN
from hardneg.records.types import RankedList
from hardneg.registry.protocols import Reranker, TrainableReranker
from hardneg.runtime.distributed import barrier, world
from hardneg.runtime.progress import Task
from hardneg.store.artifacts import SCRATCH
from hardneg.store.digest import digest
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.run_blocks import Entry, RunBlocks, query_blocks
from hardneg.verbs.shared.stage_spec import RecipeView, Row, RunSpec, Sizes, source_of

if TYPE_CHECKING:
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.queries import Queries
    from hardneg.rerankers.kept_scores import CachedScorer
    from hardneg.rerankers.pair_scoring import Advance, PairScorer, Request

_PAIRS = 4096  # of a block: what a process that is killed loses at most


class Rerank(RunSpec):
    """Scores the best documents of a run anew, query and document together.

    reranker: the stage that trained it. positives: the known positives that a list
    lacks are scored too, wherever they come to stand: for filters on training queries, never for evaluation.
    keep_scores: those of trained networks are kept by content in the user's cache, for all runs on this machine.
    tf32: whether products in fp32 are of numbers rounded to TF32, which needs a GPU by CUDA; then part of the key.
    attention, compile: how a transformer computes, where that is not left to its processor.
    """

    version = 2
    purpose = "have a reranker score what was found"
    resumes = True
    every_process = True
    stage: Literal["rerank"]
    reranker: Annotated[Name | None, Reference(("reranker",))] = None
    plugin: Annotated[Setting | None, PluginKind("rerankers")] = Field(
        None, description="A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID."
    )
    run: Annotated[Name, Reference(("run",), passes=(Trait.ADDED_POSITIVES, Trait.OWN_QUERIES))]
    split: Name = Field("test", description=SPLIT)
    depth: int = Field(LIST_DEPTH, gt=0, description="How many documents of each query are scored, the best ones.")
    positives: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)
    attention: Attention = Field(default="auto", json_schema_extra=FREE)
    compile: bool = Field(default=False, json_schema_extra=FREE)
    tf32: bool = Field(default=False, json_schema_extra=LATER)
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

    def list_length(self, recipe: RecipeView) -> int:
        """Its depth, or as much as the run has."""
        listed = recipe.list_length(self.run)
        return self.depth if listed is None else min(self.depth, listed)

    def estimate(self, sizes: Sizes) -> Row:
        """One pass over all pairs."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * self.depth * 20)

    def make(self, context: "StageContext[Rerank]") -> Facts:
        """Reranks block by block, going on behind those that are finished, and joins them in the order of the queries.

        Several processes share the blocks. A block's scores do not depend on the other blocks.
        """
        here = world()
        scoring = _Scoring.of(context)
        blocks = scoring.blocks(here.rank)
        share, finished = range(here.rank, len(blocks.sizes), here.size), blocks.finished()
        missing = [number for number in share if number not in finished]
        total, left = (sum(blocks.sizes[number] for number in numbers) for numbers in (share, missing))
        with context.progress.task("reranking", total, "queries", done=total - left) as task:
            timed = replace(blocks, ranking=partial(scoring.ranking, advance=_speed(task)))
            for number, part in timed.make(missing):
                blocks.write(number, part)
                task.advance(blocks.sizes[number])
        barrier()
        return blocks.finish() if here.first else {}

    def blocks(self, context: "StageContext[Rerank]", writer: int = 0) -> RunBlocks:
        """Blocks of queries, of about so many pairs that a process which is killed loses little."""
        return _Scoring.of(context).blocks(writer)


@dataclass(frozen=True)
class _Scoring:
    """A reranking at work: what it reads; step: queries of a block."""

    context: StageContext[Rerank]
    collection: "StoredCollection"
    queries: "Queries"
    step: int

    @classmethod
    def of(cls, context: StageContext[Rerank]) -> "_Scoring":
        from hardneg.verbs.shared.inputs import open_collection, queries_of

        collection, spec = open_collection(context.inputs["dataset"]), context.spec
        return cls(context, collection, queries_of(context, collection, spec.split), max(1, _PAIRS // spec.depth))

    def blocks(self, writer: int) -> RunBlocks:
        sizes, depth = query_blocks(len(self.queries), self.step), self.context.spec.depth
        return RunBlocks(self.context, sizes, writer, self.ranking, lambda: {"depth": depth})

    def ranking(
        self, numbers: Sequence[int], advance: "Advance" = lambda pairs: None
    ) -> Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]:
        """The lists of some blocks with new scores; nothing is loaded before the first is asked for."""
        wanted, last = set(numbers), max(numbers, default=-1) + 1
        through = _blocks(self.context, self.collection, self.queries, self.step)
        upto = through if last * self.step >= len(self.queries) else islice(through, last)
        blocks, ahead = tee(block for number, block in enumerate(upto) if number in wanted)
        answers = self._answers(ahead, advance)
        for block in blocks:
            yield block.entries(answers), lambda block=block: block.facts  # type: ignore[misc]

    def _answers(self, blocks: "Iterable[_QueryBlock]", advance: "Advance") -> Iterator[Sequence[float]]:
        """The scores of each query of the blocks."""
        from hardneg.rerankers.kept_scores import kept_answers

        corpus = self.collection.corpus
        if isinstance(self._plugin, TrainableReranker):
            yield from self._scorer.rerank_blocks((block.requests(corpus) for block in blocks), advance)
        else:
            batches = ((digest(block.query_ids[0]), list(block.requests(corpus))) for block in blocks)
            yield from kept_answers(self._plugin, batches, self._begun)

    @property
    def _begun(self) -> Path:
        return self.context.folder / SCRATCH / "begun"

    @cached_property
    def _plugin(self) -> Reranker:
        source = self.context.inputs.get("reranker")
        return self.context.plugin("plugin", Reranker) if source is None else source.plugin("reranker", Reranker)

    @cached_property
    def _scorer(self) -> "PairScorer | CachedScorer":
        """The network, whose scores are kept where that is asked for."""
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.rerankers.kept_scores import CachedScorer, CachedScores
        from hardneg.rerankers.pair_scoring import PairScorer

        source, spec, plugin = self.context.inputs.get("reranker"), self.context.spec, self._plugin
        assert isinstance(plugin, TrainableReranker)
        folder = None if source is None else source.folder / MODEL_FOLDER
        options = EncodeOptions(
            spec.tokens_per_batch,
            spec.precision,
            attention=spec.attention,
            compile=spec.compile,
            tf32=spec.tf32,
            begun=self._begun,
        )
        scorer = PairScorer.opened(plugin, folder, self.context.device, options)
        kept = CachedScores.of_plugin(scorer, plugin, folder) if spec.keep_scores else None
        return CachedScorer(scorer, kept) if kept else scorer


@dataclass(frozen=True)
class _QueryBlock:
    """Queries that follow each other, with the documents to score for each; facts count them and what was added."""

    query_ids: Sequence[str]
    texts: Sequence[str]
    doc_ids: Sequence[Sequence[str]]
    facts: Counter[str]

    def requests(self, corpus: "Corpus") -> "Iterator[Request]":
        """What a reranker is given."""
        contents = iter(corpus.contents(corpus.rows([doc_id for doc_ids in self.doc_ids for doc_id in doc_ids])))
        for text, doc_ids in zip(self.texts, self.doc_ids, strict=True):
            yield text, list(islice(contents, len(doc_ids)))

    def entries(self, answers: Iterator[Sequence[float]]) -> Iterator[tuple[str, RankedList]]:
        """The queries' documents with the scores that a reranker gave."""
        import numpy as np

        for query_id, doc_ids in zip(self.query_ids, self.doc_ids, strict=True):
            scores = next(answers, ())
            if len(scores) != len(doc_ids):
                counts = f"{len(scores)} scores for the {len(doc_ids)} documents of query {query_id}"
                raise PluginError(f"the reranker gave {counts}: one a document is needed, in their order")
            yield query_id, RankedList(doc_ids, np.asarray(scores))


def _blocks(
    context: StageContext[Rerank], collection: "StoredCollection", queries: "Queries", step: int
) -> Iterator[_QueryBlock]:
    """All blocks of the run's lists, cut at the depth."""
    from hardneg.formats.qrels import positives
    from hardneg.formats.runs import lists_in_order

    known = positives(collection.all_qrels()) if context.spec.positives else {}
    lists = lists_in_order(context.inputs["run"].folder / RUN, queries.query_ids)
    for start in range(0, len(queries), step):
        query_ids, facts = queries.query_ids[start : start + step], Counter[str]()
        chosen = [list(ranked.doc_ids[: context.spec.depth]) for ranked in islice(lists, len(query_ids))]
        facts["queries"] = len(query_ids)
        facts["queries without candidates"] = sum(not doc_ids for doc_ids in chosen)
        for query_id, doc_ids in zip(query_ids, chosen, strict=True):
            lacking = [doc_id for doc_id in known.get(query_id, ()) if doc_id not in doc_ids]
            facts["positives that the run lacks"] += len(lacking)
            doc_ids += lacking
        facts["pairs"] = sum(map(len, chosen))
        yield _QueryBlock(query_ids, queries.texts[start : start + step], chosen, facts)
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
