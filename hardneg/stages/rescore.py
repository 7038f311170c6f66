"""Stages `rerank` and `fuse`: runs computed from other runs."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, tee
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from hardneg import fields
from hardneg.encoders.protocol import EncodeOptions
from hardneg.evaluation import fusion as fusions, metrics
from hardneg.evaluation.fusion import Fusion, Method, Norm
from hardneg.formats import qrels, runs
from hardneg.formats.collection import Queries
from hardneg.protocols import Reranker, TrainableReranker
from hardneg.records import errors, layout, types, wording
from hardneg.runtime import Task
from hardneg.stages import Corpus, Facts, RecipeView, RunSpec, StageContext, StoredCollection, work
from hardneg.store import replace_text

_PAIRS = 1024  # pairs per block, sorted by length together; a stop loses at most one block
_SLOW_PAIRS = 256  # pairs per block of rerankers that score one query after another


class Rerank(RunSpec):
    """Reranks the top documents of a run.

    reranker: the stage that trained the reranker. positives: also score known positives missing from a list; meant for
    filters on training queries, never for evaluation.
    """

    version = 2
    purpose = "rerank the top passages"
    every_process = in_blocks = True
    stage: Literal["rerank"]
    reranker: Annotated[fields.Name | None, fields.Reference(("reranker",))] = None
    plugin: Annotated[fields.Setting | None, fields.PluginKind("rerankers")] = Field(
        None, description="A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID."
    )
    run: Annotated[
        fields.Name, fields.Reference(("run",), passes=(fields.Trait.ADDED_POSITIVES, fields.Trait.OWN_QUERIES))
    ]
    split: fields.Name = Field("test", description=fields.SPLIT)
    depth: int = Field(layout.LIST_DEPTH, gt=0, description="Number of top documents to rerank per query.")
    positives: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=fields.FREE)

    @model_validator(mode="after")
    def _complete(self) -> "Rerank":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("set either reranker (a stage that trains one) or plugin")
        return self

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), **({fields.Trait.ADDED_POSITIVES: recipe.name} if self.positives else {})}

    def list_length(self, recipe: RecipeView) -> int:
        listed = recipe.list_length(self.run)
        return self.depth if listed is None else min(self.depth, listed)

    def make(self, context: "StageContext[Rerank]") -> "RerankBlocks":
        """Return the work in blocks of queries; the scores of different queries are independent."""
        collection, source = work.open_collection(context.inputs["dataset"]), context.inputs.get("reranker")
        queries = work.queries_of(context, collection, self.split)
        plugin = context.plugins["plugin"] if source is None else source.plugins["reranker"]
        step = max(1, (_PAIRS if isinstance(plugin, TrainableReranker) else _SLOW_PAIRS) // self.depth)
        sizes = work.query_blocks(len(queries), step)
        return RerankBlocks(
            context, sizes, "reranking", collection=collection, queries=queries, step=step, plugin=plugin
        )


@dataclass(frozen=True)
class _QueryBlock:
    """Consecutive queries with the documents to score, and counts of both."""

    query_ids: Sequence[str]
    texts: Sequence[str]
    doc_ids: Sequence[Sequence[str]]
    facts: Counter[str]

    def requests(self, corpus: Corpus) -> Iterator[tuple[str, list[str]]]:
        """Yield the text of each query with the texts of its documents."""
        contents = iter(corpus.contents(corpus.rows([doc_id for doc_ids in self.doc_ids for doc_id in doc_ids])))
        for text, doc_ids in zip(self.texts, self.doc_ids, strict=True):
            yield text, list(islice(contents, len(doc_ids)))

    def entries(self, answers: Iterator[Sequence[float]]) -> Iterator[work.Entry]:
        """Yield each query's documents with a reranker's scores. Raises PluginError for a wrong number of scores."""
        for query_id, doc_ids in zip(self.query_ids, self.doc_ids, strict=True):
            scores = next(answers, ())
            if len(scores) != len(doc_ids):
                counts = f"{len(scores)} scores for the {len(doc_ids)} documents of query {query_id}"
                raise errors.PluginError(f"the reranker returned {counts}; it must return one per document, in order")
            yield query_id, types.RankedList(doc_ids, np.asarray(scores))


@dataclass(frozen=True)
class RerankBlocks(work.RunBlocks):
    """The work of stage `rerank` and its inputs; step: the number of queries per block."""

    collection: StoredCollection = field(kw_only=True)
    queries: Queries = field(kw_only=True)
    step: int = field(kw_only=True)
    plugin: Reranker = field(kw_only=True)

    def run_facts(self) -> Facts:
        return {"depth": self.context.spec.depth}

    def ranking(self, numbers: Sequence[int], task: Task) -> work.Ranking:
        wanted, last = set(numbers), max(numbers, default=-1) + 1
        through = self._query_blocks()
        upto = through if last * self.step >= len(self.queries) else islice(through, last)
        blocks, ahead = tee(block for number, block in enumerate(upto) if number in wanted)
        answers = self._answers(ahead)
        for block in blocks:
            yield block.entries(answers), lambda block=block: block.facts  # type: ignore[misc]

    def _query_blocks(self) -> Iterator[_QueryBlock]:
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
                facts["positives missing from the run"] += len(lacking)
                doc_ids += lacking
            facts["pairs"] = sum(map(len, chosen))
            yield _QueryBlock(query_ids, self.queries.texts[part], chosen, facts)
        for _ in lists:
            pass

    def _answers(self, blocks: Iterable[_QueryBlock]) -> Iterator[Sequence[float]]:
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


class Tuning(BaseModel):
    """The data for tuning: runs of the queries of `split`, with the same labels as the runs to fuse."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    runs: Annotated[dict[fields.Name, fields.Name], fields.MEASURED] = Field(min_length=2)
    split: fields.Name = "dev"
    metric: fields.MetricName = Field("ndcg@10", description="Metric to maximise in tuning.")
    relevance_level: int = Field(1, gt=0, description=fields.RELEVANT)
    grid: dict[fields.Name, Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Values to try for a run's weight or for `constant`, in all combinations; default: steps of 0.1.",
    )


class Fuse(RunSpec):
    """Fuses several runs into one, by interleaving them or by combining their scores or ranks.

    `reciprocal-rank` adds weight / (constant + rank). `max`, `mnz` and `wsum` are ranx methods on scores normalised by
    `norm`. tuning: the runs on which the weights or `constant` are tuned.
    """

    version = 2
    purpose = "fuse several rankings into one"
    stage: Literal["fuse"]
    runs: Annotated[dict[str, fields.Name], fields.MEASURED, Field(min_length=2)]
    method: Method = Field(
        "weighted-sum",
        description="zip (alternate between runs), weighted-sum (of scores), reciprocal-rank; ranx's max, mnz, wsum.",
    )
    weights: Mapping[str, FiniteFloat] = Field(
        default_factory=dict, description="Weight of each run, by label; default: 1."
    )
    missing_scores: Literal["lowest", "zero"] = Field(
        "lowest", description="For weighted-sum: score of a document missing from a run, the run's lowest or 0."
    )
    constant: int = Field(Fusion.constant, ge=0, description="Constant that reciprocal-rank adds to each rank.")
    norm: Norm | None = Field(
        None, json_schema_extra=fields.LATER, description="For ranx's methods: min-max (the default), none, zmuv, ..."
    )
    tuning: Tuning | None = Field(None, json_schema_extra=fields.LATER)
    split: fields.Name = "test"
    depth: int = Field(Fusion.depth, gt=0, description="Number of documents per query.")

    @model_validator(mode="after")
    def _complete(self) -> "Fuse":
        for label in self.weights:
            if label not in self.runs:
                raise ValueError(f"weights: no run is called {label!r}{wording.suggestion(label, self.runs)}")
        if problems := self.fusion.problems():
            raise ValueError("; ".join(problems))
        if (tuning := self.tuning) is None:
            return self
        if tuning.split == self.split:
            raise ValueError(f"tuning.split: {self.split} is the split to fuse; tune on the queries of another split")
        if set(tuning.runs) != set(self.runs):
            raise ValueError(f"tuning.runs: must have the same labels as runs ({', '.join(self.runs)})")
        try:
            fusions.check_grid(self.method, self.labels, tuning.grid)
        except errors.UsageError as error:
            raise ValueError(f"tuning: {error}") from None
        return self

    @property
    def labels(self) -> list[str]:
        """The labels of the runs: in recipe order for `zip`, otherwise sorted."""
        return list(self.runs) if self.method == "zip" else sorted(self.runs)

    @property
    def fusion(self) -> Fusion:
        """The fusion before tuning, for lists in the order of `labels`."""
        weights = tuple(self.weights.get(label, 1.0) for label in self.labels)
        return Fusion(self.method, weights, self.missing_scores, self.constant, self.norm, self.depth)

    def identity(self) -> dict[str, object]:
        weights = dict(zip(self.labels, self.fusion.weights, strict=True))
        identity: dict[str, Any] = {**super().identity(), "weights": weights}
        identity |= {"order": self.labels} if self.method == "zip" else {}
        return identity | ({"tuning": {**identity["tuning"], "runs": list(self.tuning.runs)}} if self.tuning else {})

    def list_length(self, recipe: RecipeView, runs: Mapping[str, str] | None = None) -> int:
        """Return the maximum number of documents per query after fusing `runs`; default: the stage's own runs."""
        lengths = [recipe.list_length(run) for run in (runs or self.runs).values()]
        return min(self.depth, sum(length if length is not None else self.depth for length in lengths))

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        if self.tuning is None:
            return
        longest = self.list_length(recipe, self.tuning.runs)
        if metrics.cut_below([self.tuning.metric], longest):
            advice = "raise the depths of the stage and of the runs, or use a smaller cutoff"
            yield f"tuning.metric: {self.tuning.metric} needs more than {longest} documents per query; {advice}"

    def make(self, context: "StageContext[Fuse]") -> Facts:
        """Fuse the runs query by query; facts: counts and tuned parameters. With tuning, a file lists each trial."""
        collection, labels, fusion = work.open_collection(context.inputs["dataset"]), self.labels, self.fusion
        query_ids, tuned = collection.queries(self.split).query_ids, dict[str, Any]()
        if self.tuning is not None:
            sources, excluded = context.inputs_of("tuning.runs"), collection.excluded()
            tuning, judged = self.tuning, collection.judged(self.tuning.split)
            whole = (runs.read_run(sources[label].folder / layout.RUN) for label in labels)
            tuned_on = [qrels.without_excluded(run, excluded) for run in whole]
            known = fusions.Development(labels, tuned_on, judged, tuning.metric, tuning.relevance_level)
            tried = fusions.tune(fusion, known, tuning.grid, query_ids, metrics.mean_of, context.progress)
            fusion = tried[0].fusion
            content = {"split": self.tuning.split, **known.to_json(tried)}
            replace_text(context.folder / layout.TUNING, json.dumps(content, indent=1, allow_nan=False) + "\n")
            numbers = {**fusions.numbers(fusion, labels), known.metric: tried[0].worth}
            tuned = {"tuned": numbers, "tried": len(tried)}
        facts, sources = Counter({"queries": len(query_ids), "depth": self.depth}), context.inputs_of("runs")
        paths = {label: sources[label].folder / layout.RUN for label in labels}

        def lists() -> Iterator[Sequence[types.RankedList]]:
            for _, hits in runs.lists_side_by_side(paths, query_ids):
                for label, ranked in hits.items():
                    facts[f"queries missing from {label}"] += not ranked.doc_ids
                yield list(hits.values())

        def entries() -> Iterator[tuple[str, types.RankedList]]:
            with context.progress.task("fusing", len(query_ids), "queries") as task:
                for query_id, ranked in zip(query_ids, fusion.over(lists()), strict=True):
                    task.advance()
                    if ranked.doc_ids:
                        yield query_id, ranked

        runs.write_run(context.folder / layout.RUN, entries())
        return {name: count for name, count in facts.items() if count} | tuned
