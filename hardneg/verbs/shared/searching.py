"""A search at work: queries are encoded and searched for, some at a time, and ranked lists come out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, own_documents
from hardneg.formats.qrels import positives
from hardneg.formats.queries import SAME_TEXT, Queries, read_query_file, write_queries
from hardneg.formats.runs import lists_in_order
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.journal import contiguous
from hardneg.formats.vectors.vectors_import import VectorOwners, arrange_vectors
from hardneg.indexes.kernels.candidate_scoring import angular_scores, rank_candidates
from hardneg.mining.listing import as_lists, exclude, with_positives
from hardneg.records.errors import DataError, UsageError
from hardneg.records.layout import QUERIES, RUN
from hardneg.records.types import Encoded, Hits, RankedList
from hardneg.records.wording import counted
from hardneg.runtime.distributed import World, barrier, world
from hardneg.runtime.progress import Seconds
from hardneg.store.artifacts import SCRATCH
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.inputs import open_prompted, open_queries, open_searcher, open_vector_files
from hardneg.verbs.shared.run_blocks import Entry

if TYPE_CHECKING:
    from hardneg.encoders.protocol import TextEncoder
    from hardneg.encoders.spec import Side
    from hardneg.registry.protocols import Searcher
    from hardneg.verbs.search import Search


WITHOUT = "queries without positives"


def searched_queries(context: "StageContext[Search]", collection: StoredCollection, facts: Counter[str]) -> Queries:
    """The queries of the file that a search names, which the first process writes, or those of its split.

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
    if world().first:
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
    file, folder = open_vector_files(vectors, context.spec.query_ids), context.folder / "query-vectors"
    dimension = context.inputs["index"].facts.get("dimension", file.dimension)
    if file.dimension != dimension:
        problem = f"vectors of dimension {file.dimension}, and {context.spec.index} has {dimension}"
        raise DataError(f"{file.path}: {problem}; encode the queries with the model of the index")
    rows = {query_id: row for row, query_id in enumerate(queries.query_ids)}
    owners = VectorOwners(
        queries.query_ids, lambda ids: np.array([rows.get(query_id, -1) for query_id in ids], np.int64), "query"
    )
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


QUERIES_AT_ONCE = 65_536
_BY_LUCENE = 4096
_BLOCKS = 16  # of documents, as many queries of which are held at once, where that is fewer

Wanted = Sequence[str] | Encoded


def share_of_queries(queries: int, here: World) -> range:
    """A process's queries: whole windows, for vectors depend a little on the texts that are encoded with them."""
    from hardneg.encoders.protocol import EncodeOptions

    window = EncodeOptions().window
    part = here.share(-(-queries // window))
    return range(queries)[part.start * window : part.stop * window]


@dataclass(frozen=True)
class Searching:
    """A search at work: what it reads, and what it counts and times."""

    context: "StageContext[Search]"
    collection: StoredCollection
    queries: Queries
    facts: Counter[str]
    seconds: Seconds

    def timings(self) -> dict[str, float]:
        """What the manifest tells: of several processes, the seconds of the first."""
        return {f"seconds of search: {name}": round(value, 4) for name, value in self.seconds.items()}

    def ranking(self, numbers: Sequence[int]) -> Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]:
        """The lists of some blocks of whole windows; those that follow each other share a pass over the index."""
        from hardneg.encoders.protocol import EncodeOptions

        window = EncodeOptions().window
        for some in contiguous(numbers):
            part = range(len(self.queries))[some.start * window : some.stop * window]
            entries = self.entries(part)
            for _ in some:
                before = Counter(self.timings())
                yield islice(entries, window), lambda before=before: Counter(self.timings()) - before  # type: ignore[misc]
            for _ in entries:
                pass

    @cached_property
    def _excluded(self) -> dict[str, list[str]]:
        """The documents that do not count for a query, by query; none where nothing is excluded."""
        return self.collection.excluded()

    @cached_property
    def _depth(self) -> int:
        """How many documents are searched for: excluded ones besides, and no more than the corpus has."""
        excluded = max((len(self._excluded.get(query_id, ())) for query_id in self.queries.query_ids), default=0)
        return min(self.context.spec.depth + excluded, len(self.collection.corpus.doc_ids))

    @cached_property
    def _searcher(self) -> "Searcher":
        inputs = self.context.inputs
        return open_searcher(inputs["index"], self.collection, self.context.device, self.context.progress)

    @cached_property
    def _encoder(self) -> "TextEncoder | None":
        context, spec = self.context, self.context.spec
        has_model = "model" in context.inputs
        return open_prompted(context, "query", spec.query_prompt, spec.precision) if has_model else None

    def entries(self, part: range) -> Iterator[Entry]:
        """The ranked lists of a part of the queries, in order."""
        if not part:
            return
        from hardneg.encoders.protocol import EncodeOptions

        spec, inputs, corpus = self.context.spec, self.context.inputs, self.collection.corpus
        vectors = vectors_of_queries(self.context, self.queries, self.facts)
        searcher, encoder = self._searcher, self._encoder
        angular = spec.scores == "angular"
        if angular and (encoder is None or encoder.spec.similarity != "cosine"):
            reason = "the index has no cosines: leave it out, or take an index whose model has them"
            raise UsageError(f"search: scores angular: {reason}")
        lists = _candidates(self.context, self.queries, part, self.facts) if "candidates" in inputs else None
        known = positives(self.collection.all_qrels()) if spec.positives else None
        step = EncodeOptions().window if lists else self._at_once
        with self.context.progress.task("searching", len(part), "queries") as task:
            for start in part[::step]:
                window = slice(start, min(start + step, part.stop))
                query_ids, keep = self.queries.query_ids[window], lists is None and len(part) > step
                wanted = vectors.read(window.start, window.stop) if vectors else self._encoded(encoder, window, keep)
                hits = self._hits(searcher, wanted, lists, window)
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
                task.advance(len(query_ids))
        for _ in lists or ():
            pass

    def _encoded(self, encoder: "TextEncoder | None", window: slice, keep: bool) -> Wanted:
        """What a window of queries becomes; keep: whether that is there after a stop however little time it took."""
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.encoders.tokens.kept_texts import encode_kept

        texts, context = self.queries.texts[window], self.context
        if encoder is None:
            return texts
        with self.seconds.of("encode queries"):
            begun = context.folder / SCRATCH / "queries" / f"{window.start}-{window.stop}"
            options = EncodeOptions(precision=context.spec.precision, begun=begun)
            side: Side = "query" if context.spec.text_of == "query" else "document"
            return encode_kept(encoder, texts, side, options, context.progress, keep)

    def _hits(self, searcher: "Searcher", wanted: Wanted, lists: Iterator[RankedList] | None, window: slice) -> Hits:
        from hardneg.indexes.open_store import search_kept

        with self.seconds.of("search"):
            if lists is None:
                name = f"{window.start}-{window.stop}"
                return search_kept(searcher, wanted, self._depth, self.context.folder / SCRATCH / "lists" / name)
            some = islice(lists, window.stop - window.start)
            rows = self.collection.corpus.list_rows([ranked.doc_ids for ranked in some])
            return rank_candidates(searcher, wanted, rows, self._depth)

    @property
    def _at_once(self) -> int:
        """How many queries are encoded and searched for at once: whole windows of the encoder.

        Lucene reads its index for each query anew, so it is given few; others pass over theirs once for all queries.
        """
        texts = self._encoder is None and self.context.spec.query_vectors is None
        if texts or hasattr(self._searcher, "lucene"):
            return _BY_LUCENE
        return QUERIES_AT_ONCE if self._encoder is None else min(QUERIES_AT_ONCE, _BLOCKS * self._encoder.block)


def _candidates(
    context: "StageContext[Search]", queries: Queries, part: range, facts: Counter[str]
) -> Iterator[RankedList]:
    """The lists of a part of the queries; all are gone through, to know the run as one of these queries."""
    path = context.inputs["candidates"].folder / RUN
    for position, ranked in enumerate(lists_in_order(path, queries.query_ids)):
        facts["queries without candidates"] += not ranked.doc_ids
        if position in part:
            yield ranked


def without_candidates(context: "StageContext[Search]", queries: Queries) -> dict[str, int]:
    """How many queries have none in the run whose documents are ranked, where there is one."""
    if "candidates" not in context.inputs:
        return {}
    lists = lists_in_order(context.inputs["candidates"].folder / RUN, queries.query_ids)
    return {"queries without candidates": sum(not ranked.doc_ids for ranked in lists)}
