"""Stage `rerank`: the best documents of a run, scored anew query and document together, as a TREC run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, tee
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import FREE, SPLIT, Name, PluginKind, Reference, Setting, Trait
from hardneg.formats import qrels, runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.queries import Queries
from hardneg.protocols import Reranker, TrainableReranker
from hardneg.records import errors, layout, types
from hardneg.runtime import Task
from hardneg.stages import blocks, inputs
from hardneg.stages.base import Facts, RecipeView, RunSpec, StageContext, source_of

_PAIRS = 1024  # of a block, which a stop may cost: they are sorted by length together
_SLOW_PAIRS = 256  # of a block of what scores one query after another


class Rerank(RunSpec):
    """Scores the best documents of a run anew, query and document together.

    reranker: the stage that trained it. positives: the known positives that a list
    lacks are scored too, wherever they come to stand: for filters on training queries, never for evaluation.
    """

    version = 2
    purpose = "have a reranker score what was found"
    every_process = True
    stage: Literal["rerank"]
    reranker: Annotated[Name | None, Reference(("reranker",))] = None
    plugin: Annotated[Setting | None, PluginKind("rerankers")] = Field(
        None, description="A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID."
    )
    run: Annotated[Name, Reference(("run",), passes=(Trait.ADDED_POSITIVES, Trait.OWN_QUERIES))]
    split: Name = Field("test", description=SPLIT)
    depth: int = Field(layout.LIST_DEPTH, gt=0, description="Number of top documents to rerank per query.")
    positives: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    @model_validator(mode="after")
    def _complete(self) -> "Rerank":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("give reranker, the name of a stage that trains one, or plugin, one of them")
        return self

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), **({Trait.ADDED_POSITIVES: recipe.name} if self.positives else {})}

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        return source_of(recipe.plugin("plugin"))

    def list_length(self, recipe: RecipeView) -> int:
        listed = recipe.list_length(self.run)
        return self.depth if listed is None else min(self.depth, listed)

    def blocks(self, context: "StageContext[Rerank]", first: bool = True) -> "RerankBlocks":
        """Blocks of queries; a block's scores do not depend on the other blocks."""
        collection, source = inputs.open_collection(context.inputs["dataset"]), context.inputs.get("reranker")
        queries = inputs.queries_of(context, collection, self.split)
        plugin = context.plugins["plugin"] if source is None else source.plugins["reranker"]
        step = max(1, (_PAIRS if isinstance(plugin, TrainableReranker) else _SLOW_PAIRS) // self.depth)
        sizes = blocks.query_blocks(len(queries), step)
        return RerankBlocks(
            context, sizes, "reranking", collection=collection, queries=queries, step=step, plugin=plugin
        )


@dataclass(frozen=True)
class _QueryBlock:
    """Queries that follow each other, with the documents to score for each; facts count them and what was added."""

    query_ids: Sequence[str]
    texts: Sequence[str]
    doc_ids: Sequence[Sequence[str]]
    facts: Counter[str]

    def requests(self, corpus: Corpus) -> Iterator[tuple[str, list[str]]]:
        """Each query's text with those of its documents."""
        contents = iter(corpus.contents(corpus.rows([doc_id for doc_ids in self.doc_ids for doc_id in doc_ids])))
        for text, doc_ids in zip(self.texts, self.doc_ids, strict=True):
            yield text, list(islice(contents, len(doc_ids)))

    def entries(self, answers: Iterator[Sequence[float]]) -> Iterator[blocks.Entry]:
        """The queries' documents with the scores that a reranker gave."""
        for query_id, doc_ids in zip(self.query_ids, self.doc_ids, strict=True):
            scores = next(answers, ())
            if len(scores) != len(doc_ids):
                counts = f"{len(scores)} scores for the {len(doc_ids)} documents of query {query_id}"
                raise errors.PluginError(f"the reranker gave {counts}: one a document is needed, in their order")
            yield query_id, types.RankedList(doc_ids, np.asarray(scores))


@dataclass(frozen=True)
class RerankBlocks(blocks.RunBlocks):
    """A reranking at work: what it reads; step: queries of a block."""

    collection: StoredCollection = field(kw_only=True)
    queries: Queries = field(kw_only=True)
    step: int = field(kw_only=True)
    plugin: Reranker = field(kw_only=True)

    def run_facts(self) -> Facts:
        return {"depth": self.context.spec.depth}

    def ranking(self, numbers: Sequence[int], task: Task) -> blocks.Ranking:
        """The lists of some blocks with new scores; nothing is loaded before the first is asked for."""
        wanted, last = set(numbers), max(numbers, default=-1) + 1
        through = self._query_blocks()
        upto = through if last * self.step >= len(self.queries) else islice(through, last)
        blocks, ahead = tee(block for number, block in enumerate(upto) if number in wanted)
        answers = self._answers(ahead)
        for block in blocks:
            yield block.entries(answers), lambda block=block: block.facts  # type: ignore[misc]

    def _query_blocks(self) -> Iterator[_QueryBlock]:
        """All blocks of the run's lists, cut at the depth."""
        spec = self.context.spec
        known = qrels.positives(self.collection.all_qrels()) if spec.positives else {}
        lists = runs.lists_in_order(self.context.inputs["run"].folder / layout.RUN, self.queries.query_ids)
        for start in range(0, len(self.queries), self.step):
            part, facts = slice(start, start + self.step), Counter[str]()
            query_ids = self.queries.query_ids[part]
            chosen = [list(ranked.doc_ids[: spec.depth]) for ranked in islice(lists, len(query_ids))]
            facts["queries"] = len(query_ids)
            facts["queries without candidates"] = sum(not doc_ids for doc_ids in chosen)
            for query_id, doc_ids in zip(query_ids, chosen, strict=True):
                lacking = [doc_id for doc_id in known.get(query_id, ()) if doc_id not in doc_ids]
                facts["positives that the run lacks"] += len(lacking)
                doc_ids += lacking
            facts["pairs"] = sum(map(len, chosen))
            yield _QueryBlock(query_ids, self.queries.texts[part], chosen, facts)
        for _ in lists:
            pass

    def _answers(self, blocks: Iterable[_QueryBlock]) -> Iterator[Sequence[float]]:
        """The scores of each query of the blocks; a query without documents has none, and no plugin is asked."""
        corpus, source, spec = self.collection.corpus, self.context.inputs.get("reranker"), self.context.spec
        if isinstance(self.plugin, TrainableReranker):
            from hardneg.rerankers.network import PairScorer

            options = EncodeOptions(spec.tokens_per_batch, spec.precision)
            folder = None if source is None else source.folder / layout.MODEL_FOLDER
            scorer = PairScorer.opened(self.plugin, folder, self.context.device, options)
            yield from scorer.rerank_blocks(block.requests(corpus) for block in blocks)
            return
        requests, ahead = tee(request for block in blocks for request in block.requests(corpus))
        answers = iter(self.plugin.rerank(request for request in ahead if request[1]))
        for _, documents in requests:
            yield next(answers, ()) if documents else ()
