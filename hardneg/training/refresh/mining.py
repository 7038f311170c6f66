"""One refresh: encode the corpus, search it for the training queries, and mine negatives from the hits."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import QueryLists
from hardneg.indexes.kernels.candidate_scoring import pooled
from hardneg.indexes.kernels.exact.exact import ExactOptions, ExactSearcher
from hardneg.indexes.open_store import open_store
from hardneg.mining.choosing import LEFT_OUT, SEEN_BY, Choosing, Filters, beside, compares
from hardneg.mining.listing import as_lists, search_queries, with_positives
from hardneg.mining.miners.ranks import Sampled, TopK
from hardneg.protocols import IndexBackend, NegativeMiner, Searcher
from hardneg.records.errors import TrainingError
from hardneg.records.layout import NEGATIVES
from hardneg.records.types import Candidates, Encoded, Negatives, RankedList
from hardneg.records.wording import counted
from hardneg.runtime.distributed import barrier, world
from hardneg.runtime.progress import Seconds, Silent
from hardneg.runtime.seeding import derive_seed
from hardneg.training.examples import TrainingData
from hardneg.training.refresh.folder import Refresh, RefreshFolder
from hardneg.training.refresh.refresh_options import RefreshOptions


@dataclass(frozen=True)
class FirstOnes:
    """A miner that keeps the first `count` negatives of another one."""

    version: ClassVar[int] = 1

    miner: NegativeMiner
    count: int

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query."""
        for query, mined in beside(self.miner, candidates, seed):
            first, scores = mined.negatives[: self.count], mined.scores[: self.count]
            yield Negatives(query.query_id, query.positives, list(first), scores, mined.dropped)


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
        """How refresh `number` chooses from the top of the corpus."""
        data, options = self.data, self.options
        if self.miner is not None:
            miner: NegativeMiner = FirstOnes(self.miner, options.negatives)
        elif options.choice == "top":
            miner = TopK(options.negatives)
        else:
            miner = Sampled(options.depth, options.negatives)
        return Choosing(data.corpus, data.positives, miner, self.filters, derive_seed(self.seed, "refresh", number))

    def searcher(self, folder: Path, device: str) -> Searcher:
        """Search of an encoded corpus by document: of the index that `backend` builds within its folder, or exactly."""
        options, built = ExactOptions(device=device), folder / "searched"
        if self.backend is None:
            searcher: Searcher = open_store(folder, options)
        else:
            shutil.rmtree(built, ignore_errors=True)  # what a killed process has left
            built.mkdir()
            self.backend.build(folder, built, Silent())
            searcher = self.backend.open(built, self.data.corpus.rows)
            searcher = searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher
        return pooled(searcher, folder, self.data.corpus.doc_ids)


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

    encoders: the same weights on each device; each encodes a part of the corpus, the first one the queries. number: the
    refresh, counted from 0.

    Raises:
        OSError: the disk is full, or cannot be written; the partial refresh is removed.
        TrainingError: there is nothing to train on; it is not published.
    """
    if not mining.trainable(number):
        queries = f"{counted(len(mining.queries(number)), 'query')}, of {len(mining.data.query_ids)} in all"
        message = f"none of its {queries}, has a positive: give fewer query_chunks"
        raise TrainingError(f"refresh {number}: nothing to train on: {message}")
    seconds, first, folder = Seconds(), world().first, refreshes.vectors(step)
    options = EncodeOptions(precision=mining.options.precision)
    if first:
        refreshes.tidy(step)
    barrier()
    try:
        with seconds.of("encode"):
            rows = encoders[0].rows(mining.data.corpus, mining.data.segments, refreshes.folder, Silent(), world())
            write_index(encoders, rows, folder, options, Silent())
        return _published(encoders[0], mining, refreshes, Refresh(number, step, 0, 0), seconds) if first else None
    except OSError:
        if first:
            refreshes.tidy()
        raise


def _published(
    encoder: Encoder, mining: Mining, refreshes: RefreshFolder, planned: Refresh, seconds: Seconds
) -> Refresh:
    folder, facts, vectors = refreshes.partial(planned.number), Counter[str](), refreshes.vectors(planned.step)
    with nullcontext() if mining.backend is None else seconds.of("index"):
        searcher = mining.searcher(vectors, str(encoder.device))
    with seconds.of("write", without=("queries", "search")):
        lists = _listed(encoder, searcher, mining, planned.number, seconds)
        write_negatives(folder / NEGATIVES, mining.choosing(planned.number).negatives(lists, facts))
    counts = {name: count for name, count in facts.items() if name.startswith((LEFT_OUT, SEEN_BY))}
    refresh = Refresh(planned.number, planned.step, facts["queries"], facts["negatives"], seconds, counts)
    if not refresh.negatives:
        refreshes.tidy(planned.step)  # the vectors stay for the next try
        top = f"the top {mining.options.depth} of each of its {refresh.queries} queries is relevant or dropped"
        raise TrainingError(f"refresh {refresh.number}: nothing to train on: {top}: raise depth, or drop less")
    refreshes.publish(refresh)
    shutil.rmtree(vectors)
    return refresh


def _listed(
    encoder: Encoder, searcher: Searcher, mining: Mining, number: int, seconds: Seconds
) -> Iterator[QueryLists]:
    """Yield the hits of each query that has positives."""
    data, queries = mining.data, mining.trainable(number)
    texts, options = [data.texts[position] for position in queries], EncodeOptions(precision=mining.options.precision)

    def encode(some: Sequence[str]) -> Encoded:
        vectors: Encoded = encoder.encode(some, "query", options)
        return vectors

    blocks = search_queries(encode, texts, searcher, mining.options.depth, _BLOCKS * encoder.block, seconds)
    for window, vectors, hits in blocks:
        query_ids, tops = [data.query_ids[position] for position in queries[window]], as_lists(hits)
        if compares(mining.miner, *mining.filters.plugins):  # with the positives that the search has missed
            known = [data.positives[query_id] for query_id in query_ids]
            with seconds.of("search"):
                tops = iter([*with_positives(hits, searcher, vectors, known, data.corpus)])
        for query_id, (rows, scores) in zip(query_ids, tops, strict=True):
            yield query_id, {"dense": RankedList(data.corpus.ids(rows), scores)}
