"""One refresh: encode the corpus, search it for the training queries, and mine negatives from the hits."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.formats.runs import QueryLists
from hardneg.formats.segments import Segments
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.indexes.kernels.exact.exact import ExactOptions, ExactSearcher
from hardneg.indexes.kernels.max_passage import pooled
from hardneg.indexes.open_store import open_store
from hardneg.mining.choosing import LEFT_OUT, SEEN_BY, Choosing, Filters, beside, compares
from hardneg.mining.listing import as_lists, search_queries, with_positives
from hardneg.mining.miners.ranks import Sampled, TopK
from hardneg.mining.miners.selection import scores_of
from hardneg.records.errors import TrainingError
from hardneg.records.layout import NEGATIVES
from hardneg.records.types import Candidates, Encoded, Negatives, RankedList
from hardneg.records.wording import counted
from hardneg.registry.protocols import IndexBackend, NegativeMiner, Searcher
from hardneg.runtime.distributed import barrier, world
from hardneg.runtime.progress import Seconds, Silent
from hardneg.runtime.seeding import derive_seed
from hardneg.training.examples import TrainingData
from hardneg.training.refresh.folder import Refresh, RefreshFolder
from hardneg.training.refresh.refresh_options import RefreshOptions

_BUILT = "searched"
"""The folder of a built index, within that of the vectors."""


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus encoded by a model, in a folder of its own, and the index built of it.

    backend: builds that index; None: exact search of the encoded corpus. device: of the exact search.
    """

    corpus: Corpus
    folder: Path
    device: str
    backend: IndexBackend | None = None

    def write(
        self, encoders: Sequence[Encoder], segments: Segments | None, counts: Path, options: EncodeOptions
    ) -> None:
        """Encode what is missing; each of several processes calls this, and encodes a part.

        counts: the file of the numbers of segments, which depend on no weights.
        """
        rows = encoders[0].rows(self.corpus, segments, counts, Silent(), world())
        write_index(encoders, rows, self.folder, options, Silent())

    def build(self) -> None:
        """Build the index, if there is a backend; what a killed process left of it is replaced."""
        if self.backend is not None:
            shutil.rmtree(self.folder / _BUILT, ignore_errors=True)
            (self.folder / _BUILT).mkdir()
            self.backend.build(self.folder, self.folder / _BUILT, Silent())

    @cached_property
    def exact(self) -> Searcher:
        """Exact search of the encoded corpus, by document."""
        return self._pooled(open_store(self.folder, ExactOptions(device=self.device)))

    @cached_property
    def searcher(self) -> Searcher:
        """Search of the built index, or else of the encoded corpus, by document."""
        if self.backend is None:
            return self.exact
        searcher = self.backend.open(self.folder / _BUILT, self.corpus.rows)
        options = ExactOptions(device=self.device)
        return self._pooled(searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher)

    def _pooled(self, searcher: Searcher) -> Searcher:
        return pooled(searcher, self.folder, self.corpus.doc_ids)


BEFORE, NOW = "before", "now"
"""A query's negatives in its `hits`: with the scores they had when they were mined, and with those they have now."""


def has_decayed(
    first: NDArray[np.float32], now: NDArray[np.float32], ratio: float, easy_below: float
) -> NDArray[np.bool_]:
    """Which negatives are no longer hard: ratio * now < first, and abs(now) < easy_below; bool [n].

    A negative that was mined with a score below zero fulfils the first condition unless its score rises.

    Source: Li et al., Conan-embedding: General Text Embedding with More and Better Negative Samples (arXiv 2408.15710),
    dynamic hard negative mining, with a ratio of 1.15 and scores below 0.8.

    Args:
        first: float32 [n], their scores when they were mined.
        now: float32 [n], their scores by the model as it is.
        ratio: above 1, how far a score may fall before the negative counts as easy.
        easy_below: a score of this size or more is hard whatever it was.
    """
    return (ratio * now < first) & (np.abs(now) < easy_below)


@dataclass(frozen=True)
class KeptWhileHard:
    """A miner that keeps a query's hard negatives and replaces the decayed ones with those of another miner.

    Where a query has none (no `BEFORE` among its hits) all are of the other miner, its first ones. A document that is
    replaced does not come back at once. Scores are those that a negative had when it was mined.
    """

    version: ClassVar[int] = 1

    miner: NegativeMiner
    options: RefreshOptions

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, those that are kept first."""
        none = RankedList((), np.empty(0, np.float32))
        for query, fresh in beside(self.miner, candidates, seed):
            before, now = query.hits.get(BEFORE, none), query.hits.get(NOW, none)
            scores = np.nan_to_num(scores_of(before.doc_ids, now), nan=0.0)
            decayed = has_decayed(before.scores, scores, self.options.decay, self.options.easy_below)
            kept, had = np.flatnonzero(~decayed).tolist(), frozenset(before.doc_ids)
            new = [position for position, doc_id in enumerate(fresh.negatives) if doc_id not in had]
            new = new[: self.options.negatives - len(kept)]
            doc_ids = [
                *(before.doc_ids[position] for position in kept),
                *(fresh.negatives[position] for position in new),
            ]
            dropped = {**fresh.dropped, **({"decayed": int(decayed.sum())} if decayed.any() else {})}
            joined = np.concatenate([before.scores[kept], fresh.scores[new]])
            yield Negatives(query.query_id, query.positives, doc_ids, joined, dropped)


@dataclass(frozen=True)
class LastMined:
    """The negatives of the refresh before, and what scores them: `searcher`, of the vectors of the model as it is."""

    file: NegativesFile
    corpus: Corpus
    searcher: Searcher

    def hits(self, query_ids: Sequence[str], queries: Encoded) -> Iterator[Mapping[str, RankedList]]:
        """For each query its negatives as `BEFORE` and `NOW`; nothing where it had none."""
        had = [self.file[self._rows[name]] if name in self._rows else None for name in query_ids]
        lists = [[] if item is None else list(item.negatives) for item in had]
        rows = self.corpus.known_lists(lists, max(map(len, lists), default=0), "start afresh")
        ranked = rank_candidates(self.searcher, queries, rows, max(1, rows.shape[1]))
        for item, own_rows, scores in zip(had, ranked.rows, ranked.scores, strict=True):
            if item is None:
                yield {}
                continue
            now = RankedList(self.corpus.ids(own_rows[own_rows >= 0]), scores[own_rows >= 0])
            yield {BEFORE: RankedList(item.negatives, item.scores), NOW: now}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.file.query_ids)}


_BLOCKS = 16  # of queries, as large as those of documents that are written, searched at a time: they are in memory


@dataclass(frozen=True)
class Mining:
    """What is mined, and how.

    seed: draws depend on it, the refresh and the query alone. miner: selects from the top of the corpus; None: that of
    the options' `choice`. backend: builds the index that is searched, anew for each refresh; None searches what was
    encoded itself, exactly.
    """

    data: TrainingData
    options: RefreshOptions
    seed: int
    filters: Filters = Filters()  # noqa: RUF009
    miner: NegativeMiner | None = None
    backend: IndexBackend | None = None

    def queries(self, number: int) -> range:
        """The positions of the queries of refresh `number`: all, or one part; the last part takes the remainder."""
        return chunk(len(self.data.query_ids), number, self.options.query_chunks)

    def trainable(self, number: int) -> list[int]:
        """The positions of the queries that have positives: the others cannot be trained on."""
        data = self.data
        return [position for position in self.queries(number) if data.positives.get(data.query_ids[position])]

    def choosing(self, number: int) -> Choosing:
        """How refresh `number` chooses from the top of the corpus, and from what there was, where that stays."""
        data, options, miner = self.data, self.options, self.miner
        filters, seed = replace(self.filters, apart=(BEFORE, NOW)), derive_seed(self.seed, "refresh", number)
        if miner is None:
            count = options.negatives if options.replace == "all" else 2 * options.negatives  # half may be there
            miner = TopK(count) if options.choice == "top" else Sampled(options.depth, count)
        if self.miner is not None or options.replace != "all":
            miner = KeptWhileHard(miner, options)
        return Choosing(data.corpus, data.positives, miner, filters, seed)

    @property
    def compares(self) -> bool:
        """Whether lists need the scores of the positives that the search has missed."""
        return compares(self.miner, *self.filters.plugins)


def chunk(count: int, number: int, chunks: int) -> range:
    """Part `number` modulo `chunks` of `count` things in a row, all of one size but the last."""
    size, position = count // chunks, number % chunks
    return range(position * size, count if position == chunks - 1 else (position + 1) * size)


def known_to_be_relevant(
    positives: Mapping[str, Sequence[str]], options: RefreshOptions
) -> Mapping[str, Sequence[str]]:
    """The positives that training and mining know of."""
    if options.excluded == "last":
        return {query_id: doc_ids[-1:] for query_id, doc_ids in positives.items()}
    return positives


def mine_refresh(
    encoders: Sequence[Encoder], mining: Mining, refreshes: RefreshFolder, number: int, step: int
) -> Refresh | None:
    """Mines with a model of `step` updates and publishes the result as refresh `number`.

    Memory does not grow with the corpus: its vectors go to a file, block by block, and are searched block by block.
    Vectors that a killed process left of the same model are reused.

    Several processes each call this with the same arguments and encode a part of the corpus;
    the first one does the rest, and the others get None.

    Args:
        encoders: the same weights on each device; each encodes a part of the corpus, the first one the queries.
        mining: what is mined, and how.
        refreshes: where refreshes are published.
        number: the refresh, counted from 0.
        step: the model's.

    Raises:
        OSError: the disk is full, or cannot be written; the partial refresh is removed.
        TrainingError: there is nothing to train on; it is not published.
    """
    if not mining.trainable(number):
        queries = f"{counted(len(mining.queries(number)), 'query')}, of {len(mining.data.query_ids)} in all"
        message = f"none of its {queries}, has a positive: give fewer query_chunks"
        raise TrainingError(f"refresh {number}: nothing to train on: {message}")
    seconds, first = Seconds(), world().first
    if first:
        refreshes.tidy(step)
    barrier()
    try:
        with seconds.of("encode"):
            corpus = EncodedCorpus(mining.data.corpus, refreshes.vectors(step), str(encoders[0].device), mining.backend)
            corpus.write(
                encoders, mining.data.segments, refreshes.folder, EncodeOptions(precision=mining.options.precision)
            )
        return (
            _published(encoders[0], corpus, mining, refreshes, Refresh(number, step, 0, 0), seconds) if first else None
        )
    except OSError:
        if first:
            refreshes.tidy()
        raise


def _published(
    encoder: Encoder,
    corpus: EncodedCorpus,
    mining: Mining,
    refreshes: RefreshFolder,
    planned: Refresh,
    seconds: Seconds,
) -> Refresh:
    folder, facts = refreshes.partial(planned.number), Counter[str]()
    if mining.backend is not None:
        with seconds.of("index"):
            corpus.build()
    with seconds.of("write", without=("queries", "search")):
        last = None
        if mining.options.replace != "all" and planned.number:
            newest = refreshes.newest()
            if newest is None or newest.number >= planned.number:
                message = f"the negatives that refresh {planned.number} updates are gone"
                raise TrainingError(f"{refreshes.folder}: {message}: remove its parent to start afresh")
            before = read_negatives(refreshes.negatives(newest.number), whole=True)
            last = LastMined(before, mining.data.corpus, corpus.exact)
        lists = _listed(encoder, corpus, mining, planned.number, seconds, last)
        write_negatives(folder / NEGATIVES, mining.choosing(planned.number).negatives(lists, facts))
    dropped = {name.removeprefix(LEFT_OUT): count for name, count in facts.items() if name.startswith(LEFT_OUT)}
    seen = {name.removeprefix(SEEN_BY): count for name, count in facts.items() if name.startswith(SEEN_BY)}
    refresh = Refresh(planned.number, planned.step, facts["queries"], facts["negatives"], seconds, dropped, seen)
    if not refresh.negatives:
        refreshes.tidy(planned.step)  # the vectors stay for the next try
        top = f"the top {mining.options.depth} of each of its {refresh.queries} queries is relevant or dropped"
        raise TrainingError(f"refresh {refresh.number}: nothing to train on: {top}: raise depth, or drop less")
    refreshes.publish(refresh)
    shutil.rmtree(corpus.folder)
    return refresh


def _listed(
    encoder: Encoder, corpus: EncodedCorpus, mining: Mining, number: int, seconds: Seconds, last: LastMined | None
) -> Iterator[QueryLists]:
    """Yield the hits of each query that has positives, with its earlier negatives."""
    data, queries = mining.data, mining.trainable(number)
    texts, options = [data.texts[position] for position in queries], EncodeOptions(precision=mining.options.precision)

    def encode(some: Sequence[str]) -> Encoded:
        vectors: Encoded = encoder.encode(some, "query", options)
        return vectors

    blocks = search_queries(encode, texts, corpus.searcher, mining.options.depth, _BLOCKS * encoder.block, seconds)
    for window, vectors, hits in blocks:
        query_ids = [data.query_ids[position] for position in queries[window]]
        with seconds.of("search"):
            had = [{}] * len(query_ids) if last is None else list(last.hits(query_ids, vectors))
            tops = as_lists(hits)
            if mining.compares:
                known = [data.positives[query_id] for query_id in query_ids]
                tops = iter([*with_positives(hits, corpus.searcher, vectors, known, data.corpus)])
        for query_id, (rows, scores), more in zip(query_ids, tops, had, strict=True):
            yield query_id, {"dense": RankedList(data.corpus.ids(rows), scores), **more}
