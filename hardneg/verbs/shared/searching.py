"""A search at work: queries are encoded and searched for, some at a time, and ranked lists come out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.protocol import EncodeOptions, TextEncoder
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, own_documents
from hardneg.formats.qrels import positives
from hardneg.formats.queries import SAME_TEXT, Queries, read_query_file, write_queries
from hardneg.formats.runs import lists_in_order
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.vectors_import import VectorOwners, arrange_vectors
from hardneg.indexes.kernels.candidate_scoring import angular_scores, rank_candidates
from hardneg.mining.listing import as_lists, exclude, with_positives
from hardneg.records.errors import DataError, UsageError
from hardneg.records.layout import QUERIES, RUN
from hardneg.records.types import Encoded, Hits, RankedList
from hardneg.records.wording import counted
from hardneg.runtime.distributed import barrier
from hardneg.runtime.progress import Seconds, Task
from hardneg.store.artifacts import SCRATCH
from hardneg.store.blocks import contiguous
from hardneg.verbs.shared.blocks import Entry, Ranking, RunBlocks, query_blocks
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.inputs import open_collection, open_prompted, open_queries, open_searcher, open_vector_files

if TYPE_CHECKING:
    from hardneg.registry.protocols import Searcher
    from hardneg.verbs.search import Search


WITHOUT = "queries without positives"


def searched_queries(
    context: "StageContext[Search]", collection: StoredCollection, facts: Counter[str], first: bool
) -> Queries:
    """The queries of the file that a search names, which the `first` process writes, or those of its split.

    Where the search is with the text of positives, that stands in place of each query's own.

    Raises:
        DataError: the file has mistakes, or no query but the collection's own; no query has a positive.
    """
    if context.spec.queries is None:
        queries = open_queries(context, collection, context.spec.split)
        if context.spec.text_of != "query":
            return _positives_of(context, collection, queries, facts)
        _, owner = own_documents(collection.corpus, queries.query_ids, queries.texts)
        if count := len({queries.query_ids[at] for at in owner.tolist()}.difference(collection.excluded())):
            stand = f"{counted(count, 'query stands', 'queries stand')} in the corpus too, found first and counted"
            advice = "`exclude_own: true` of the dataset leaves out documents that have the query's id"
            context.progress.note(f"{context.name}: {stand}; {advice}")
        return queries
    if first:
        _write_queries(context, collection, Path(context.spec.queries).expanduser(), facts)
    barrier()
    return Queries.open(context.folder / QUERIES)


def _positives_of(
    context: "StageContext[Search]", collection: StoredCollection, queries: Queries, facts: Counter[str]
) -> Queries:
    texts = positive_texts(queries, positives(collection.all_qrels()), collection.corpus, facts)
    if not len(texts):
        problem = f"no query of split {context.spec.split} has a positive, a judgement above zero of a document"
        raise DataError(f"{context.name}: text_of: {problem} in the corpus")
    return texts


def _write_queries(
    context: "StageContext[Search]", collection: StoredCollection, path: Path, facts: Counter[str]
) -> None:
    known = {query_id: text for split in collection.splits for query_id, text in collection.queries(split)}
    if not write_queries(context.folder / QUERIES, read_query_file(path, known, facts)):
        raise DataError(f"{path}: no query in it that the dataset does not have")
    for reason in [reason for reason, count in facts.items() if not count]:
        del facts[reason]
    if same := facts.get(SAME_TEXT):
        problem = f"{same} {SAME_TEXT}: where that is one to measure by, training on it leaks"
        context.progress.note(f"{context.name}: {problem}")


def vectors_of_queries(context: "StageContext[Search]", queries: Queries, facts: Counter[str]) -> FlatVectors | None:
    """The vectors of the file that a search names, in the order of the queries; None where it names none."""
    if (vectors := context.spec.query_vectors) is None:
        return None
    file = open_vector_files(vectors, context.spec.query_ids)
    dimension = context.inputs["index"].facts.get("dimension", file.dimension)
    if file.dimension != dimension:
        problem = f"vectors of dimension {file.dimension}, and {context.spec.index} has {dimension}"
        raise DataError(f"{file.path}: {problem}; encode the queries with the model of the index")
    rows = {query_id: row for row, query_id in enumerate(queries.query_ids)}
    owners = VectorOwners(
        queries.query_ids, lambda ids: np.array([rows.get(query_id, -1) for query_id in ids], np.int64), "query"
    )
    folder = Path(mkdtemp(dir=context.folder / SCRATCH)) / "query-vectors"  # of each process that needs them
    if others := arrange_vectors(file, owners, folder, context.progress):
        facts["vectors of other queries"] = others
    return FlatVectors.open(folder)


@dataclass(frozen=True)
class DocumentTexts(Sequence[str]):
    """The contents of some documents, read on access; rows: int64 [n], of the corpus."""

    corpus: Corpus
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.corpus.contents(self.rows[index])
        return self.corpus.contents(self.rows[index : index + 1 or None])[0]


def positive_texts(
    queries: Queries, known: Mapping[str, Sequence[str]], corpus: Corpus, facts: Counter[str]
) -> Queries:
    """The queries, each with the contents of its first positive that the corpus has, read on access.

    Those that have none are left out, and counted in `facts`.

    Args:
        queries: of one split.
        known: positives by query id, in the order of the judgements.
        corpus: what the positives are documents of.
        facts: counts.
    """
    lists = [known.get(query_id, ()) for query_id in queries.query_ids]
    rows = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    owner = np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])[rows >= 0]
    owners, first = np.unique(owner, return_index=True)
    if left_out := len(lists) - len(owners):
        facts[WITHOUT] = left_out
    query_ids = [queries.query_ids[i] for i in owners.tolist()]
    return Queries(query_ids, DocumentTexts(corpus, rows[rows >= 0][first]))


_BLOCK = 1024  # queries
_MOST, _DOCUMENTS = 65_536, 16  # queries of a pass over the index; and in blocks of documents that an encoder writes
_PRODUCTS, _FASTER = 1 << 43, 64  # of a pass that takes about half a minute on a CPU, and how much faster a GPU is

Wanted = Sequence[str] | Encoded


@dataclass(frozen=True)
class SearchBlocks(RunBlocks):
    """A search at work: what it reads, and what it counts and times.

    whole: what is counted of all queries when they are read. held: the encoded queries of the last windows.
    """

    collection: StoredCollection = field(kw_only=True)
    queries: Queries = field(kw_only=True)
    whole: Counter[str] = field(kw_only=True)
    facts: Counter[str] = field(default_factory=Counter)
    seconds: Seconds = field(default_factory=Seconds)
    held: dict[range, Encoded] = field(default_factory=dict)

    @classmethod
    def opened(cls, context: "StageContext[Search]", first: bool) -> "SearchBlocks":
        """Opens what is searched for. Raises DataError as `searched_queries`."""
        collection, whole = open_collection(context.inputs["dataset"]), Counter[str]()
        queries = searched_queries(context, collection, whole, first)
        travels = context.spec.query_vectors is None
        sizes = query_blocks(len(queries), _BLOCK)
        return cls(context, sizes, "searching", travels=travels, collection=collection, queries=queries, whole=whole)

    def run_facts(self) -> Facts:
        """What was counted of all queries, and how many have no candidates where those of a run are ranked."""
        _ = self._vectors  # counts the vectors of other queries
        facts = {**self.whole, "queries": len(self.queries), "depth": self.context.spec.depth}
        if "candidates" in self.context.inputs:
            lists = lists_in_order(self.context.inputs["candidates"].folder / RUN, self.queries.query_ids)
            facts["queries without candidates"] = sum(not ranked.doc_ids for ranked in lists)
        return facts

    def ranking(self, numbers: Sequence[int], task: Task) -> Ranking:
        """The lists of some blocks; those that follow each other share a pass over the index."""
        for some in contiguous(numbers):
            entries = self._entries(range(len(self.queries))[some.start * _BLOCK : some.stop * _BLOCK])
            for number in some:
                yield islice(entries, self.sizes[number]), partial(self._counted_since, self._counted_since(Counter()))
            for _ in entries:
                pass

    def _counted_since(self, before: Counter[str]) -> Counter[str]:
        times = {f"seconds of search: {name}": round(value, 4) for name, value in self.seconds.items()}
        now = Counter[str](self.facts)
        now.update(times)
        return now - before

    @cached_property
    def _excluded(self) -> dict[str, list[str]]:
        """The documents that do not count for a query, by query; none where nothing is excluded."""
        return self.collection.excluded()

    @cached_property
    def _depth(self) -> int:
        """How many documents are searched for: excluded ones besides, and no more than the corpus has."""
        excluded = max((len(self._excluded.get(query_id, ())) for query_id in self.queries.query_ids), default=0)
        return min(int(self.context.spec.depth) + excluded, len(self.collection.corpus.doc_ids))

    @cached_property
    def _searcher(self) -> "Searcher":
        context = self.context
        return open_searcher(
            context.inputs["index"], self.collection, context.device, context.progress, expected=len(self.queries)
        )

    @cached_property
    def _encoder(self) -> TextEncoder | None:
        context, spec = self.context, self.context.spec
        has_model = "model" in context.inputs
        return open_prompted(context, "query", spec.query_prompt, spec.precision) if has_model else None

    @cached_property
    def _options(self) -> EncodeOptions:
        return EncodeOptions(precision=self.context.spec.precision)

    @cached_property
    def _vectors(self) -> FlatVectors | None:
        return vectors_of_queries(self.context, self.queries, self.whole)

    def _entries(self, part: range) -> Iterator[Entry]:
        """The ranked lists of a part of the queries, in order."""
        spec, inputs, corpus = self.context.spec, self.context.inputs, self.collection.corpus
        vectors, searcher, encoder = self._vectors, self._searcher, self._encoder
        angular = spec.scores == "angular"
        if angular and (encoder is None or encoder.spec.similarity != "cosine"):
            reason = "the index has no cosines: leave it out, or take an index whose model has them"
            raise UsageError(f"search: scores angular: {reason}")
        lists = _candidates(self.context, self.queries, part) if "candidates" in inputs else None
        known = positives(self.collection.all_qrels()) if spec.positives else None
        for start in part[:: self._options.window if lists else self._at_once]:
            window = part[start - part.start :][: self._options.window if lists else self._at_once]
            query_ids = self.queries.query_ids[window.start : window.stop]
            wanted = vectors.read(window.start, window.stop) if vectors else self._encoded(encoder, window)
            hits = self._hits(searcher, wanted, lists, len(window))
            if self._excluded:
                excluded = [self._excluded.get(query_id, ()) for query_id in query_ids]
                hits = exclude(hits, excluded, corpus, spec.depth)
            hits_of = as_lists(hits)
            if known is not None:
                theirs = [known.get(query_id, ()) for query_id in query_ids]
                hits_of = with_positives(hits, searcher, wanted, theirs, corpus)
            for query_id, (rows, scores) in zip(query_ids, hits_of, strict=True):
                if not len(rows):
                    self.facts["queries that found no document"] += 1
                yield query_id, RankedList(corpus.ids(rows), angular_scores(scores) if angular else scores)
        for _ in lists or ():
            pass

    def _encoded(self, encoder: TextEncoder | None, part: range) -> Wanted:
        """What some queries become; whole windows are encoded, for vectors depend a little on the texts beside them."""
        if encoder is None:
            return self.queries.texts[part.start : part.stop]
        size = self._options.window
        whole = range(len(self.queries))[part.start // size * size : -(-part.stop // size) * size]
        if whole not in self.held:
            self.held.clear()
            texts, side = self.queries.texts[whole.start : whole.stop], self.context.spec.text_of
            with self.seconds.of("encode queries"):
                self.held[whole] = encoder.encode(
                    texts, "query" if side == "query" else "document", self._options, self.context.progress
                )
        encoded = self.held[whole]
        return encoded if whole == part else encoded[part.start - whole.start : part.stop - whole.start]

    def _hits(self, searcher: "Searcher", wanted: Wanted, lists: Iterator[RankedList] | None, count: int) -> Hits:
        with self.seconds.of("search"):
            if lists is None:
                return searcher.search(wanted, self._depth)
            rows = self.collection.corpus.list_rows([ranked.doc_ids for ranked in islice(lists, count)])
            return rank_candidates(searcher, wanted, rows, self._depth)

    @cached_property
    def _at_once(self) -> int:
        """How many queries are searched for in a pass over the index: so many that a kill costs half a minute.

        Lucene reads its index for each query anew, so it is given few; others pass over theirs once for all of them.
        """
        texts = self._encoder is None and self._vectors is None
        if texts or hasattr(self._searcher, "lucene"):
            return _BLOCK
        most = _MOST if self._encoder is None else min(_MOST, _DOCUMENTS * self._encoder.block)
        gpu = self._encoder is not None and self._encoder.device.type != "cpu"
        facts = self.context.inputs["index"].facts
        numbers = max(1, int(str(facts.get("bytes", 0))) // 4)
        affordable = (_PRODUCTS * _FASTER if gpu else _PRODUCTS) // numbers
        return max(1, min(most, affordable) // _BLOCK) * _BLOCK


def _candidates(context: "StageContext[Search]", queries: Queries, part: range) -> Iterator[RankedList]:
    """The lists of a part of the queries; all are gone through, to know the run as one of these queries."""
    path = context.inputs["candidates"].folder / RUN
    for position, ranked in enumerate(lists_in_order(path, queries.query_ids)):
        if position in part:
            yield ranked
