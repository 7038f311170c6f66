"""A search at work: queries are encoded and searched for, some at a time, and ranked lists come out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import positives
from hardneg.formats.queries import Queries
from hardneg.formats.runs import lists_in_order
from hardneg.formats.vectors.block_files import contiguous
from hardneg.indexes.kernels.candidate_scoring import angular_scores, rank_candidates
from hardneg.indexes.kernels.checks import check_encoded
from hardneg.mining.listing import as_lists, exclude, with_positives
from hardneg.records.errors import UsageError
from hardneg.records.layout import RUN
from hardneg.records.types import Encoded, Hits, RankedList
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Seconds
from hardneg.store.artifacts import SCRATCH
from hardneg.store.digest import digest
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.inputs import open_prompted, open_searcher
from hardneg.verbs.shared.run_blocks import Entry
from hardneg.verbs.shared.searched_queries import vectors_of_queries

if TYPE_CHECKING:
    from hardneg.encoders.protocol import TextEncoder
    from hardneg.encoders.spec import Side
    from hardneg.registry.protocols import Searcher
    from hardneg.verbs.search import Search

QUERIES_AT_ONCE = 65_536
_BY_LUCENE = 4096
_BLOCKS = 16  # of documents, as many queries of which are held at once, where that is fewer

Wanted = Sequence[str] | Encoded


def share_of_queries(queries: int, here: World) -> range:
    """A process's queries: whole windows, for vectors depend a little on the texts that are encoded with them."""
    from hardneg.encoders.inference import EncodeOptions

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
        from hardneg.encoders.inference import EncodeOptions

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
        from hardneg.indexes.shard_search import KeptLists, shard_by_shard

        inputs = self.context.inputs
        searcher = open_searcher(inputs["index"], self.collection, self.context.device, self.context.progress)
        kept = KeptLists(self.context.folder / SCRATCH / "shards", self.context.spec.place)
        return shard_by_shard(searcher, kept)

    def _searcher_at(self, start: int) -> "Searcher":
        """The searcher for the window of queries that begins there: all machines call its lists by one name."""
        from hardneg.indexes.shard_search import ShardedSearcher

        if self.context.spec.place is None or not isinstance(self._searcher, ShardedSearcher):
            return self._searcher
        sources = sorted((path, item.key) for path, item in self.context.inputs.items())
        return replace(self._searcher, name=digest([sources, self.context.spec.identity(), start]))

    def search_shards(self, taken: slice) -> set[int]:
        """Searches the shards that are taken for all queries; returns the numbers of those that nobody searched yet."""
        from hardneg.indexes.shard_search import ShardedSearcher

        missing, step = set[int](), self._at_once
        for start in range(0, len(self.queries), step):
            if not isinstance(searcher := self._searcher_at(start), ShardedSearcher) or not searcher.several:
                raise UsageError(f"{self.context.name}: place: the index is not in shards: leave place out")
            window = slice(start, min(start + step, len(self.queries)))
            wanted = self._encoded(self._encoder, window, keep=True)
            encoded = check_encoded("shards are searched", wanted)
            missing |= searcher.search_some(encoded, self._depth, taken)
        return missing

    @cached_property
    def _encoder(self) -> "TextEncoder | None":
        context, spec = self.context, self.context.spec
        has_model = "model" in context.inputs
        return open_prompted(context, "query", spec.query_prompt, spec.precision) if has_model else None

    def entries(self, part: range) -> Iterator[Entry]:
        """The ranked lists of a part of the queries, in order."""
        if not part:
            return
        from hardneg.encoders.inference import EncodeOptions

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
                hits = self._hits(self._searcher_at(start), wanted, lists, window)
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
        from hardneg.encoders.inference import EncodeOptions
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
        with self.seconds.of("search"):
            if lists is None:
                return self._kept(searcher, wanted, f"{window.start}-{window.stop}")
            some = islice(lists, window.stop - window.start)
            rows = self.collection.corpus.list_rows([ranked.doc_ids for ranked in some])
            return rank_candidates(searcher, wanted, rows, self._depth)

    def _kept(self, searcher: "Searcher", wanted: Wanted, name: str) -> Hits:
        """What is found for a window of queries; where the searcher keeps nothing itself, the lists are kept."""
        from hardneg.indexes.kernels.max_passage import PooledSearcher
        from hardneg.indexes.shard_search import KeptLists, ShardedSearcher

        inner = searcher.searcher if isinstance(searcher, PooledSearcher) else searcher
        if isinstance(inner, ShardedSearcher):
            return searcher.search(wanted, self._depth)
        kept = KeptLists(self.context.folder / SCRATCH / "lists")
        if (hits_of := kept.find(name)) is None:
            kept.keep(name, hits_of := searcher.search(wanted, self._depth))
        return hits_of

    @property
    def _at_once(self) -> int:
        """How many queries are encoded and searched for at once: whole windows of the encoder.

        Lucene reads its index for each query anew, so it is given few; others pass over theirs once for all queries.
        """
        from hardneg.indexes.backends.impact import ImpactSearcher

        texts = self._encoder is None and self.context.spec.query_vectors is None
        if texts or isinstance(self._searcher, ImpactSearcher):
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
