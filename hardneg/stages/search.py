"""Stage `search`: the best documents for the queries of one split, of all or of a run's, as a TREC run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.runs import join_runs, lists_in_order, write_run
from hardneg.distributed import World, barrier, world
from hardneg.errors import UsageError
from hardneg.fields import FREE, LATER, InputFile, Name, Reference, Trait
from hardneg.indexes.candidate_scoring import angular_scores, rank_candidates
from hardneg.layout import QUERIES, RUN
from hardneg.progress import Seconds
from hardneg.stages.context import Facts, StageContext
from hardneg.stages.inputs import open_collection, open_encoder, open_searcher
from hardneg.stages.searched_queries import given_vectors, searched_queries
from hardneg.stages.spec import BLOCK_BYTES, JVM_BYTES, RecipeView, Row, RunSpec, Sizes
from hardneg.types import Encoded, Hits, RankedList

if TYPE_CHECKING:
    from hardneg.encoders.protocol import TextEncoder
    from hardneg.protocols import Searcher

QUERIES_AT_ONCE = 65_536
_BLOCKS = 16  # of documents, as many queries of which are held at once, where that is fewer
_LISTS = 1024

Entry = tuple[str, RankedList]
Found = tuple[NDArray[np.int64], NDArray[np.float32]]
_PURPOSES = {
    "train": "rank the passages for the training queries, to mine from",
    "dev": "rank the passages for the dev queries, to choose the best weights by",
    "test": "rank the passages for the test queries, to measure",
}
Wanted = Sequence[str] | Encoded


class Search(RunSpec):
    """Searches an index for the queries of one split; queries are encoded in fp32, as Pyserini does it.

    model: encodes the queries; by default the model that encoded the index. candidates: ranks the documents of this run
    by their vectors in the index, instead of the whole corpus. positives: behind each list of a dense index stand the
    known positives that it lacks, at their own scores; such a run is for mining, not to be measured. scores: `angular`
    are 1 - arccos(cosine) / pi, in the same order, for an index of normalised vectors. queries: a file of queries to
    search for in place of a split, of which nothing is known; they stand beside the run for `rerank` and `label`.
    query_vectors: the queries' vectors, which no model has to encode then; query_ids: of an array, whose they are.
    """

    version = 1
    purpose = "rank the passages for the queries"
    every_process = True
    stage: Literal["search"]
    index: Annotated[Name, Reference(("index",))]
    model: Annotated[Name | None, Reference(("model",))] = None
    candidates: Annotated[Name | None, Reference(("run",), passes=(Trait.ADDED_POSITIVES,))] = None
    split: Name = "test"
    depth: int = Field(default=100, gt=0)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    positives: bool = Field(default=False, json_schema_extra=LATER)
    scores: Literal["own", "angular"] = Field(default="own", json_schema_extra=LATER)
    queries: Annotated[Name | None, InputFile("queries, an id, a tab and a text a line")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_vectors: Annotated[Name | None, InputFile("vectors of the queries, Parquet, JSON Lines or .npy")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_ids: Annotated[Name | None, InputFile("the id of each vector of an array, one a line")] = Field(
        default=None, json_schema_extra=FREE
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """What an index over texts cannot give, cosines of a model that has none, and vectors of queries."""
        yield from self._problems_of_vectors(recipe)
        texts = Trait.TEXTS in recipe.traits(self.index)
        if texts and self.model is not None:
            yield f"model: {self.index!r} is searched with texts, not vectors; leave the model out"
        if texts and self.positives:
            yield f"positives: {self.index!r} holds texts, which have no scores of their own"
        if self.scores == "angular" and recipe.model.similarity is not None:
            if recipe.model.similarity != "cosine":
                told = f"angular needs model.similarity: cosine, not {recipe.model.similarity}"
                yield f"scores: {told}; leave it out"
            elif texts:
                yield f"scores: angular needs vectors, and {self.index} has none; leave it out"

    def _problems_of_vectors(self, recipe: RecipeView) -> Iterator[str]:
        traits = recipe.traits(self.index)
        if self.query_ids is not None and self.query_vectors is None:
            yield "query_ids: goes with query_vectors; give the array too, or leave it out"
        if self.query_vectors is None:
            if Trait.IMPORTED in traits and self.model is None and recipe.query_model(self.index) is None:
                told = f"no model is known that encodes queries for {self.index!r}, of imported vectors"
                yield f"query_vectors: missing; {told}: give a file of theirs, or model"
            return
        if Trait.TEXTS in traits:
            yield f"query_vectors: {self.index!r} is searched with texts, not vectors; leave them out"
        if self.model is not None:
            yield "model: the queries have vectors; leave the model out, or query_vectors"
        if self.scores == "angular":
            yield "scores: angular needs the cosines of a model, and query_vectors have none; leave it out"

    def why(self) -> str:
        """By the split what the run is for."""
        return _PURPOSES.get(self.split, self.purpose)

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The model that encoded the index."""
        own = recipe.query_model(self.index) if self.model is None and self.query_vectors is None else None
        return {} if own is None else {"model": own}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Positives that were not found, and queries of a file."""
        own = {Trait.ADDED_POSITIVES: self.positives, Trait.OWN_QUERIES: self.queries is not None}
        return {**super().traits(recipe), **{trait: recipe.name for trait, has in own.items() if has}}

    def estimate(self, sizes: Sizes) -> Row:
        """By the query: encoded and compared with every vector, or looked up by Lucene."""
        count = sizes.queries(self.split)
        disk = count * self.depth * 20
        scores = 0.0 if self.candidates else sizes.searching(count)
        if self.query_vectors is not None:
            return Row(count, "queries", disk, seconds=scores + 1, held=BLOCK_BYTES)
        if "model" not in sizes.inputs:
            return Row(count, "queries", disk, JVM_BYTES, count / 150 + 8)
        encoding = sizes.network_seconds(count * sizes.model.query_length * 0.4)
        held = sizes.shape.weights + BLOCK_BYTES
        return Row(count, "queries", disk, seconds=scores + encoding + 3, held=held)

    def make(self, context: "StageContext[Search]") -> Facts:
        """Searches in as few passes over the index as memory allows, and writes the run in the order of the queries.

        Several processes share the queries of a dense index, by whole windows of the encoder: the run is the same.
        """
        collection, here = open_collection(context.inputs["dataset"]), world()
        facts = Counter[str]()
        queries = searched_queries(context, collection, facts)
        facts += Counter({"queries": len(queries), "depth": self.depth})
        searching = _Searching(context, collection, queries, facts, Seconds())
        if here.size == 1 or "model" not in context.inputs:
            if here.first:
                write_run(context.folder / RUN, searching.entries(range(len(queries))))
                context.keep_only(RUN, QUERIES)
            return {**facts, **searching.told()}
        parts = [context.folder / f"part-{rank}.trec" for rank in range(here.size)]
        write_run(parts[here.rank], searching.entries(_share(len(queries), here)))
        barrier()
        if here.first:
            join_runs(parts, context.folder / RUN)
            context.keep_only(RUN, QUERIES)
        return {**facts, **searching.told()}


def _share(queries: int, here: World) -> range:
    """This process's queries: whole windows, for vectors depend a little on the texts that are encoded with them."""
    from hardneg.encoders.inference import EncodeOptions

    window = EncodeOptions().window
    part = here.share(-(-queries // window))
    return range(queries)[part.start * window : part.stop * window]


@dataclass(frozen=True)
class _Searching:
    """A search at work: what it reads, and what it counts and times."""

    context: StageContext[Search]
    collection: StoredCollection
    queries: Queries
    facts: Counter[str]
    seconds: Seconds

    def told(self) -> dict[str, float]:
        """What the manifest tells: of several processes, the seconds of the first."""
        return {f"seconds of search: {name}": round(value, 4) for name, value in self.seconds.items()}

    def entries(self, part: range) -> Iterator[Entry]:
        """The ranked lists of a part of the queries, in order."""
        if not part:
            return
        from hardneg.encoders.inference import EncodeOptions

        spec, inputs, corpus = self.context.spec, self.context.inputs, self.collection.corpus
        given = given_vectors(self.context, self.queries, self.facts)
        searcher = open_searcher(inputs["index"], self.collection, self.context.device, self.context.progress)
        encoder = open_encoder(inputs["model"], self.context.device, spec.precision) if "model" in inputs else None
        if spec.scores == "angular":
            _check_cosines(encoder)
        lists = _candidates(self.context, self.queries, part, self.facts) if "candidates" in inputs else None
        known = positives(self.collection.all_qrels()) if spec.positives else None
        step = EncodeOptions().window if lists else _at_once(encoder)
        with self.context.progress.task("searching", len(part), "queries") as task:
            for start in part[::step]:
                window = slice(start, min(start + step, part.stop))
                query_ids, texts = self.queries.query_ids[window], self.queries.texts[window]
                wanted = given.read(window.start, window.stop) if given else self._encoded(encoder, texts)
                hits = self._hits(searcher, wanted, lists, len(texts))
                found = _found(hits)
                if known is not None:
                    theirs = [known.get(query_id, ()) for query_id in query_ids]
                    found = _with_positives(hits, searcher, wanted, theirs, corpus)
                for query_id, (rows, scores) in zip(query_ids, found, strict=True):
                    yield query_id, RankedList(corpus.ids(rows), self._reported(scores))
                task.advance(len(texts))
        for _ in lists or ():
            pass

    def _encoded(self, encoder: "TextEncoder | None", texts: Sequence[str]) -> Wanted:
        from hardneg.encoders.inference import EncodeOptions

        if encoder is None:
            return texts
        with self.seconds.of("encode queries"):
            options = EncodeOptions(precision=self.context.spec.precision)
            return encoder.encode(texts, "query", options, self.context.progress)

    def _hits(self, searcher: "Searcher", wanted: Wanted, lists: Iterator[RankedList] | None, count: int) -> Hits:
        with self.seconds.of("search"):
            if lists is None:
                return searcher.search(wanted, self.context.spec.depth)
            given = _rows(self.collection.corpus, [ranked.doc_ids for ranked in islice(lists, count)])
            return rank_candidates(searcher, wanted, given, self.context.spec.depth)

    def _reported(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return angular_scores(scores) if self.context.spec.scores == "angular" else scores


def _candidates(
    context: StageContext[Search], queries: Queries, part: range, facts: Counter[str]
) -> Iterator[RankedList]:
    """The lists of a part of the queries; all are gone through, to know the run as one of these queries."""
    path = context.inputs["candidates"].folder / RUN
    for place, ranked in enumerate(lists_in_order(path, queries.query_ids)):
        facts["queries without candidates"] += not ranked.doc_ids
        if place in part:
            yield ranked


def _check_cosines(encoder: "TextEncoder | None") -> None:
    if encoder is None or encoder.spec.similarity != "cosine":
        raise UsageError(
            "search: scores angular: the index has no cosines: leave it out, or take an index whose model has them"
        )


def _at_once(encoder: "TextEncoder | None") -> int:
    """How many queries are encoded and searched for at once: whole windows of the encoder."""
    return QUERIES_AT_ONCE if encoder is None else min(QUERIES_AT_ONCE, _BLOCKS * encoder.block)


def _found(hits: Hits) -> Iterator[Found]:
    for rows, scores in zip(hits.rows, hits.scores, strict=True):
        yield rows[rows >= 0], scores[rows >= 0]


def _with_positives(
    hits: Hits, searcher: "Searcher", wanted: Wanted, known: Sequence[Sequence[str]], corpus: Corpus
) -> Iterator[Found]:
    """The hits of each query, and behind them those of its known positives that they lack, at their own scores."""
    for start in range(0, len(known), _LISTS):
        part = slice(start, start + _LISTS)
        given = _rows(corpus, known[part])
        own = rank_candidates(searcher, wanted[part], given, max(1, given.shape[1]))
        listed = Hits(hits.rows[part], hits.scores[part])
        for (rows, scores), (others, theirs) in zip(_found(listed), _found(own), strict=True):
            lacking = ~np.isin(others, rows)
            yield np.concatenate([rows, others[lacking]]), np.concatenate([scores, theirs[lacking]])


def _rows(corpus: Corpus, lists: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """The documents of each list as rows of the corpus, int64 [Q, C], padded with -1."""
    lengths = np.array([len(doc_ids) for doc_ids in lists])
    rows = np.full((len(lists), lengths.max(initial=0)), -1, np.int64)
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    rows[inside] = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    return rows
