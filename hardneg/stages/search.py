"""Stage `search`: the best documents for the queries of a split or of a file, as a TREC run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.encoders.protocol import EncodeOptions, TextEncoder
from hardneg.fields import FREE, LATER, SPLIT, InputFile, Name, Reference, Trait
from hardneg.formats import qrels, runs, source_files, vectors_import
from hardneg.formats.collection import Queries, write_queries
from hardneg.formats.corpus import Corpus, own_documents
from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.candidate_scoring import angular_scores, rank_candidates
from hardneg.mining import choosing
from hardneg.protocols import Searcher
from hardneg.records import Encoded, errors, layout, types, wording
from hardneg.runtime import distributed, progress
from hardneg.stages import Facts, RecipeView, RunSpec, StageContext, StoredCollection, work
from hardneg.store import SCRATCH, blocks

_PURPOSES = {
    "train": "rank the passages for the training queries, to mine negatives",
    "dev": "rank the passages for the dev queries, for validation and tuning",
    "test": "rank the passages for the test queries, for evaluation",
}
WITHOUT, _OTHERS = "queries without positives", "vectors of other queries"
_BLOCK = 1024  # queries
_MOST, _DOCUMENTS = 65_536, 16  # queries per pass over the index, at most and per document in an encoder's block
_PRODUCTS, _FASTER = 1 << 43, 64  # multiplications in half a minute on a CPU, and the speed-up of a GPU


class Search(RunSpec):
    """Searches an index for the queries of one split, which are encoded in fp32 by default, as in Pyserini.

    model: the query encoder; by default the model that encoded the index. candidates: a run whose documents are ranked
    by their vectors in the index, instead of the whole corpus. positives: append known positives that the search
    missed, with their scores; for mining, not for evaluation. text_of: `positive` searches with each query's first
    known positive, encoded as a document, and skips queries without positives; for mining, not for evaluation. scores:
    `angular` returns 1 - arccos(cosine) / pi, for normalised vectors. queries: a file of unlabelled queries to use
    instead of a split; stored with the run for `rerank` and `label`. query_vectors: a file of query vectors to use
    instead of a model. query_ids: a file with the query id of each row, if `query_vectors` is an array.
    """

    version = 1
    every_process = in_blocks = True
    stage: Literal["search"]
    index: Annotated[Name, Reference(("index",))]
    model: Annotated[Name | None, Reference(("model",))] = None
    candidates: Annotated[Name | None, Reference(("run",), passes=(Trait.ADDED_POSITIVES,))] = None
    split: Name = Field("test", description=SPLIT)
    depth: int = Field(layout.LIST_DEPTH, gt=0, description="Number of documents per query.")
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    query_prompt: str | None = Field(
        default=None, json_schema_extra=LATER, description="The prompt before each query, instead of the model's."
    )
    positives: bool = Field(default=False, json_schema_extra=LATER)
    text_of: Literal["query", "positive"] = Field(default="query", json_schema_extra=LATER)
    scores: Literal["own", "angular"] = Field(default="own", json_schema_extra=LATER)
    queries: Annotated[Name | None, InputFile("one query per line: id, tab and text")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_vectors: Annotated[Name | None, InputFile("vectors of the queries, Parquet, JSON Lines or .npy")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_ids: Annotated[Name | None, InputFile("the id of each vector of an array, one per line")] = Field(
        default=None, json_schema_extra=FREE
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        encoder, similarity = recipe.query_model(self.index), recipe.model.similarity
        traits = recipe.traits(self.index) if encoder is None else {}  # with an encoder, it contains vectors
        given = {name for name, info in type(self).model_fields.items() if getattr(self, name) != info.default}
        rules = (
            ("query_vectors" in given, "model scores text_of query_prompt", "cannot be combined with query_vectors"),
            ("text_of" in given, "queries positives query_prompt", "cannot be combined with text_of: positive"),
            (
                Trait.TEXTS in traits,
                "query_vectors model positives scores query_prompt",
                f"{self.index!r} is searched with text, not vectors",
            ),
        )
        for holds, names, why in rules:
            yield from (f"{name}: {why}; remove it" for name in names.split() if holds and name in given)
        if "query_ids" in given and "query_vectors" not in given:
            yield "query_ids: needs query_vectors; set query_vectors to an array, or remove it"
        if Trait.IMPORTED in traits and not given & {"query_vectors", "model"}:
            unknown = f"the model of the imported vectors of {self.index!r} is unknown"
            yield f"query_vectors: missing, and {unknown}; set query_vectors to a file, or set model"
        if "scores" in given and similarity not in (None, "cosine"):
            yield f"scores: angular needs model.similarity: cosine, not {similarity}; remove it"

    @property
    def purpose(self) -> str:  # type: ignore[override]
        general = "rank the passages for the queries"
        return general if self.queries is not None else _PURPOSES.get(self.split, general)

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        own = recipe.query_model(self.index) if self.model is None and self.query_vectors is None else None
        return {} if own is None else {"model": own}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        own = {
            Trait.ADDED_POSITIVES: self.positives or self.text_of == "positive",
            Trait.OWN_QUERIES: self.queries is not None,
            Trait.OF_POSITIVES: self.text_of == "positive",
        }
        return {**super().traits(recipe), **{trait: recipe.name for trait, has in own.items() if has}}

    def list_length(self, recipe: RecipeView) -> int:
        """Return the depth, or the number of candidates if that is smaller, not counting added positives."""
        candidates = recipe.list_length(self.candidates) if self.candidates else None
        return self.depth if candidates is None else min(self.depth, candidates)

    def make(self, context: "StageContext[Search]") -> "SearchBlocks":
        """Return the work in blocks of queries; blocks share passes over the index."""
        collection, whole = work.open_collection(context.inputs["dataset"]), Counter[str]()
        wanted = searched_queries(context, collection, whole)
        sizes, travels = work.query_blocks(len(wanted), _BLOCK), self.query_vectors is None
        return SearchBlocks(
            context, sizes, "searching", travels=travels, collection=collection, queries=wanted, whole=whole
        )


def searched_queries(context: StageContext[Search], collection: StoredCollection, facts: Counter[str]) -> Queries:
    """Return the queries to search for, from a split or a file (stored by the first process); facts: receives counts.

    Raises DataError if the file is malformed or has no new queries, the split is empty, or `text_of` finds no positive.
    """
    spec = context.spec
    if spec.queries is not None:
        if context.first:
            path = Path(spec.queries).expanduser()
            known = {query_id: text for split in collection.splits for query_id, text in collection.queries(split)}
            read = source_files.read_query_file(path, known, facts)
            if not write_queries(context.folder / layout.QUERIES, read):
                raise errors.DataError(f"{path}: all queries are already in the dataset; use a file with other queries")
            if same := facts.get(source_files.SAME_TEXT):
                leak = "if any of those is a test query, training on its copy leaks the test set"
                context.progress.note(f"{context.name}: {same} {source_files.SAME_TEXT}; {leak}")
        distributed.barrier()
        return Queries.open(context.folder / layout.QUERIES)
    own = work.open_queries(context, collection, spec.split)
    if spec.text_of != "query":
        texts = positive_texts(own, qrels.positives(collection.all_qrels()), collection.corpus, facts)
        if not len(texts):
            problem = f"no query of split {spec.split} has a positive in the corpus"
            raise errors.DataError(f"{context.name}.text_of: {problem}; remove it")
        return texts
    _, owner = own_documents(collection.corpus, own.query_ids, own.texts)
    if count := len({own.query_ids[at] for at in owner.tolist()}.difference(collection.excluded())):
        found = f"{wording.counted(count, 'query is', 'queries are')} also in the corpus, usually as the top hit"
        advice = "to exclude documents with the query's id, set `exclude_own: true` in `dataset`"
        context.progress.note(f"{context.name}: {found}; {advice}")
    return own


@dataclass(frozen=True)
class DocumentTexts(Sequence[str]):
    """The contents of documents, read on access; rows: int64 [n], the corpus rows of the documents."""

    corpus: Corpus
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.corpus.contents(self.rows[index])
        return self.corpus.contents(self.rows[index : index + 1 or None])[0]


def positive_texts(asked: Queries, known: Mapping[str, Sequence[str]], corpus: Corpus, facts: Counter[str]) -> Queries:
    """Return the queries that have a positive, each with the contents of its first positive as text, read on access.

    asked: the queries. known: positives by query id. facts: receives the number of queries without one.
    """
    lists = [known.get(query_id, ()) for query_id in asked.query_ids]
    rows = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    owner = np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])[rows >= 0]
    owners, first = np.unique(owner, return_index=True)
    if left_out := len(lists) - len(owners):
        facts[WITHOUT] = left_out
    query_ids = [asked.query_ids[i] for i in owners.tolist()]
    return Queries(query_ids, DocumentTexts(corpus, rows[rows >= 0][first]))


@dataclass(frozen=True)
class SearchBlocks(work.RunBlocks):
    """The work of stage `search`, with the inputs, counts and times.

    whole: counts over all queries rather than one block. held: the encoded queries of the latest window, by its range.
    """

    collection: StoredCollection = field(kw_only=True)
    queries: Queries = field(kw_only=True)
    whole: Counter[str] = field(kw_only=True)
    facts: Counter[str] = field(default_factory=Counter)
    seconds: progress.Seconds = field(default_factory=progress.Seconds)
    held: dict[range, Encoded] = field(default_factory=dict)

    def run_facts(self) -> Facts:
        _ = self._vectors  # counts the vectors of other queries
        counts = {name: count for name, count in self.whole.items() if count}
        facts = {**counts, "queries": len(self.queries), "depth": self.context.spec.depth}
        if "candidates" in self.context.inputs:
            facts["queries without candidates"] = sum(not ranked.doc_ids for ranked in self._candidates())
        return facts

    def ranking(self, numbers: Sequence[int], task: progress.Task) -> work.Ranking:
        for some in blocks.contiguous(numbers):
            entries = self._entries(range(len(self.queries))[some.start * _BLOCK : some.stop * _BLOCK])
            for number in some:
                yield islice(entries, self.sizes[number]), partial(self._counted_since, self._counted_since(Counter()))
            for _ in entries:
                pass

    def _counted_since(self, before: Counter[str]) -> Counter[str]:
        now = Counter[str](self.facts)
        now.update({f"seconds of search: {name}": round(value, 4) for name, value in self.seconds.items()})
        return now - before

    def _candidates(self, part: range | None = None) -> Iterator[types.RankedList]:
        """Yield the lists of a part of the queries; reads the whole run to detect unknown queries."""
        path = self.context.inputs["candidates"].folder / layout.RUN
        lists = enumerate(runs.lists_in_order(path, self.queries.query_ids))
        return (ranked for position, ranked in lists if part is None or position in part)

    @cached_property
    def _excluded(self) -> dict[str, list[str]]:
        return self.collection.excluded()

    @cached_property
    def _depth(self) -> int:
        """The number of documents to search for: the depth plus excluded documents, up to the size of the corpus."""
        excluded = max((len(self._excluded.get(query_id, ())) for query_id in self.queries.query_ids), default=0)
        return min(int(self.context.spec.depth) + excluded, len(self.collection.corpus.doc_ids))

    @cached_property
    def _searcher(self) -> Searcher:
        index, device, progress = self.context.inputs["index"], self.context.device, self.context.progress
        return work.open_searcher(index, self.collection, device, progress, expected=len(self.queries))

    @cached_property
    def _encoder(self) -> TextEncoder | None:
        spec = self.context.spec
        if "model" not in self.context.inputs:
            return None
        return work.open_prompted(self.context, "query", spec.query_prompt, spec.precision)

    @property
    def _options(self) -> EncodeOptions:
        return EncodeOptions(precision=self.context.spec.precision)

    @cached_property
    def _vectors(self) -> FlatVectors | None:
        context, spec, query_ids = self.context, self.context.spec, self.queries.query_ids
        if spec.query_vectors is None:
            return None
        ids = None if spec.query_ids is None else Path(spec.query_ids).expanduser()
        file = vectors_import.open_vectors(Path(spec.query_vectors).expanduser(), ids)
        dimension = context.inputs["index"].facts.get("dimension", file.dimension)
        if file.dimension != dimension:
            problem = f"vectors have dimension {file.dimension}, but index {spec.index} has dimension {dimension}"
            raise errors.DataError(f"{file.path}: {problem}; encode the queries with the model of the index")
        rows = {query_id: row for row, query_id in enumerate(query_ids)}
        owners = vectors_import.VectorOwners(
            query_ids, lambda names: np.array([rows.get(name, -1) for name in names], np.int64), "query"
        )
        folder = Path(mkdtemp(dir=context.folder / SCRATCH)) / "query-vectors"  # of each process that needs them
        self.whole[_OTHERS] = vectors_import.arrange_vectors(file, owners, folder, context.progress)
        return FlatVectors.open(folder)

    def _entries(self, part: range) -> Iterator[work.Entry]:
        spec, corpus = self.context.spec, self.collection.corpus
        vectors, searcher, encoder = self._vectors, self._searcher, self._encoder
        angular = spec.scores == "angular"
        if angular and (encoder is None or encoder.spec.similarity != "cosine"):
            raise errors.UsageError(f"{self.context.name}.scores: angular needs an index with cosine scores; remove it")
        lists = self._candidates(part) if "candidates" in self.context.inputs else None
        known = qrels.positives(self.collection.all_qrels()) if spec.positives else None
        step = self._options.window if lists else self._at_once
        for start in part[::step]:
            window = part[start - part.start :][:step]
            query_ids = self.queries.query_ids[window.start : window.stop]
            wanted = vectors.read(window.start, window.stop) if vectors else self._encoded(encoder, window)
            hits = self._hits(searcher, wanted, lists, len(window))
            if self._excluded:
                excluded = [self._excluded.get(query_id, ()) for query_id in query_ids]
                hits = choosing.exclude(hits, excluded, corpus, spec.depth)
            hits_of = choosing.as_lists(hits)
            if known is not None:
                theirs = [known.get(query_id, ()) for query_id in query_ids]
                hits_of = choosing.with_positives(hits, searcher, wanted, theirs, corpus)
            for query_id, (rows, scores) in zip(query_ids, hits_of, strict=True):
                self.facts["queries without results"] += not len(rows)
                yield query_id, types.RankedList(corpus.ids(rows), angular_scores(scores) if angular else scores)
        for _ in lists or ():
            pass

    def _encoded(self, encoder: TextEncoder | None, part: range) -> Sequence[str] | Encoded:
        """Return queries as text or vectors, encoded in whole windows because vectors depend slightly on the batch."""
        if encoder is None:
            return self.queries.texts[part.start : part.stop]
        size = self._options.window
        side: Literal["query", "document"] = "query" if self.context.spec.text_of == "query" else "document"
        whole = range(len(self.queries))[part.start // size * size : -(-part.stop // size) * size]
        if whole not in self.held:
            self.held.clear()
            with self.seconds.of("encode queries"):
                texts = self.queries.texts[whole.start : whole.stop]
                self.held[whole] = encoder.encode(texts, side, self._options, self.context.progress)
        encoded = self.held[whole]
        return encoded if whole == part else encoded[part.start - whole.start : part.stop - whole.start]

    def _hits(
        self, searcher: Searcher, wanted: Sequence[str] | Encoded, lists: Iterator[types.RankedList] | None, count: int
    ) -> types.Hits:
        with self.seconds.of("search"):
            if lists is None:
                return searcher.search(wanted, self._depth)
            rows = self.collection.corpus.list_rows([ranked.doc_ids for ranked in islice(lists, count)])
            return rank_candidates(searcher, wanted, rows, self._depth)

    @cached_property
    def _at_once(self) -> int:
        """The number of queries per pass over the index, about half a minute of work; one block for Lucene."""
        encoder = self._encoder
        if (encoder is None and self._vectors is None) or hasattr(self._searcher, "lucene"):
            return _BLOCK
        most = _MOST if encoder is None else min(_MOST, _DOCUMENTS * encoder.block)
        products = _PRODUCTS * _FASTER if encoder is not None and encoder.device.type != "cpu" else _PRODUCTS
        numbers = max(1, int(str(self.context.inputs["index"].facts.get("bytes", 0))) // 4)
        return max(1, min(most, products // numbers) // _BLOCK) * _BLOCK
