"""A refresh: encode the corpus, search it for the training queries, and mine negatives; as a program, again and again.

The program runs beside the trainer: it loads the newest checkpoint, mines, publishes, and starts over. It ends with the
trainer, even a killed one: the system then closes the pipe between the two.
"""

import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import TypeAdapter

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.stream import write_index
from hardneg.formats import qrels, runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import with_positives, write_negatives
from hardneg.formats.segments import Segments
from hardneg.indexes.candidate_scoring import pooled
from hardneg.indexes.exact import ExactOptions, ExactSearcher
from hardneg.indexes.open_store import open_store
from hardneg.mining import choosing
from hardneg.mining.choosing import LEFT_OUT, SEEN_BY, Choosing, compares
from hardneg.mining.filters import Filters, MiningTexts, paired
from hardneg.mining.ranks import Sampled, TopK
from hardneg.protocols import IndexBackend, NegativeMiner, Searcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import configure
from hardneg.runtime import Seconds, Silent, barrier, derive_seed, world
from hardneg.store import replace_text
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.examples import TrainingData
from hardneg.training.options import RefreshOptions
from hardneg.training.refresh.folder import Refresh, RefreshFolder

AGAIN = 30.0
"""Seconds before the program retries a failed write."""
_BLOCKS = 16  # of queries, as large as those of documents that are written, searched at a time: they are in memory


@dataclass(frozen=True)
class FirstOnes:
    """A miner that keeps the first `count` negatives of another one."""

    version: ClassVar[int] = 1

    miner: NegativeMiner
    count: int

    def mine(self, candidates: Iterable[types.Candidates], *, seed: int) -> Iterator[types.Negatives]:
        """The negatives of each query."""
        for query, mined in paired(candidates, partial(self.miner.mine, seed=seed)):
            first, scores = mined.negatives[: self.count], mined.scores[: self.count]
            yield types.Negatives(query.query_id, query.positives, list(first), scores, mined.dropped)


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

    def trainable(self, number: int) -> list[int]:
        """The positions of the queries of refresh `number` that have positives: the others cannot be trained on."""
        data = self.data
        queries = chunk(len(data.query_ids), number, self.options.query_chunks)
        return [position for position in queries if data.positives.get(data.query_ids[position])]

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
    """Mines with a model of `step` updates and publishes the result as refresh `number`, counted from 0.

    Memory does not grow with the corpus: its vectors go to a file, block by block, and are searched block by block.
    Vectors that a killed process left of the same model are reused. Several processes each call this with the same
    arguments and encode a part of the corpus; the first one does the rest, and the others get None.

    encoders: the same weights on each device; each encodes a part of the corpus, the first one the queries.

    Raises:
        OSError: the disk is full, or cannot be written; the partial refresh is removed.
        TrainingError: there is nothing to train on; it is not published.
    """
    if not mining.trainable(number):
        total = len(mining.data.query_ids)
        queries = wording.counted(len(chunk(total, number, mining.options.query_chunks)), "query")
        message = f"none of its {queries}, of {total} in all, has a positive: give fewer query_chunks"
        raise errors.TrainingError(f"refresh {number}: nothing to train on: {message}")
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
        write_negatives(folder / layout.NEGATIVES, mining.choosing(planned.number).negatives(lists, facts))
    counts = {name: count for name, count in facts.items() if name.startswith((LEFT_OUT, SEEN_BY))}
    refresh = Refresh(planned.number, planned.step, facts["queries"], facts["negatives"], seconds, counts)
    if not refresh.negatives:
        refreshes.tidy(planned.step)  # the vectors stay for the next try
        top = f"the top {mining.options.depth} of each of its {refresh.queries} queries is relevant or dropped"
        raise errors.TrainingError(f"refresh {refresh.number}: nothing to train on: {top}: raise depth, or drop less")
    refreshes.publish(refresh)
    shutil.rmtree(vectors)
    return refresh


def _listed(
    encoder: Encoder, searcher: Searcher, mining: Mining, number: int, seconds: Seconds
) -> Iterator[runs.QueryLists]:
    """Yield the hits of each query that has positives."""
    data, queries, depth = mining.data, mining.trainable(number), mining.options.depth
    texts, options = [data.texts[position] for position in queries], EncodeOptions(precision=mining.options.precision)
    encode: Any = partial(encoder.encode, side="query", options=options)
    blocks = choosing.search_queries(encode, texts, searcher, depth, _BLOCKS * encoder.block, seconds)
    for window, vectors, hits in blocks:
        query_ids, tops = [data.query_ids[position] for position in queries[window]], choosing.as_lists(hits)
        if compares(mining.miner, *mining.filters.plugins):  # with the positives that the search has missed
            known = [data.positives[query_id] for query_id in query_ids]
            with seconds.of("search"):
                tops = iter([*choosing.with_positives(hits, searcher, vectors, known, data.corpus)])
        for query_id, (rows, scores) in zip(query_ids, tops, strict=True):
            yield query_id, {"dense": types.RankedList(data.corpus.ids(rows), scores)}


@dataclass(frozen=True)
class Settings:
    """What the trainer hands over to the program.

    model: the one that training starts from. collection: its folder; split: whose queries are mined. checkpoints and
    refreshes: the folders. first: the first step to mine from. devices: one or more to encode on; threads: on a CPU.
    segments: how documents are cut, if they are. pseudo_positives: a file of negatives whose positives count, too.
    miner, filters: what selects, and what leaves candidates out before; no miner: that of the options' `choice`.
    backend: of the index that a refresh searches; None searches the vectors themselves.
    """

    model: ModelSpec
    collection: str
    split: str
    checkpoints: str
    refreshes: str
    options: RefreshOptions
    seed: int
    first: int
    devices: Sequence[str]
    threads: int
    segments: Segments | None = None
    pseudo_positives: str | None = None
    miner: types.PluginSetting | None = None
    filters: tuple[types.PluginSetting, ...] = ()
    backend: types.PluginSetting | None = None

    def write(self, path: Path) -> None:
        replace_text(path, TypeAdapter(Settings).dump_json(self, indent=1).decode() + "\n")

    @classmethod
    def read(cls, path: Path) -> "Settings":
        return TypeAdapter(cls).validate_json(path.read_bytes())

    def mining(self) -> Mining:
        """What a refresh mines, and how."""
        collection = StoredCollection.open(Path(self.collection))
        queries, options = collection.queries(self.split), self.options
        known: Mapping[str, Sequence[str]] = qrels.positives(collection.all_qrels())
        if self.pseudo_positives is not None:
            known = with_positives(known, Path(self.pseudo_positives))
        relevant = known_to_be_relevant(known, options)
        data = TrainingData(collection.corpus, queries.query_ids, queries.texts, relevant, segments=self.segments)
        match = options.answer_match if options.without_answers else None
        plugins = [configure("filters", each) for each in self.filters]
        filters = Filters.of(MiningTexts(collection, self.split), plugins, match, relevant)
        miner = None if self.miner is None else configure("miners", self.miner)
        backend = None if self.backend is None else configure("indexes", self.backend)
        return Mining(data, options, self.seed, filters, miner, backend)


def serve(settings: Settings, wait: Callable[[float | None], None], report: Callable[[str], None]) -> None:
    """Mines from the newest checkpoint whenever one is due; does not return.

    A checkpoint that is removed while it is read is skipped for the next newest. A full disk is reported once and
    retried at the next checkpoint or after `AGAIN`. A refresh with nothing to train on is reported, and the next part
    of the queries is mined from the next checkpoint, unless training waits for this one.

    Raises:
        TrainingError: there is nothing to begin to train on.
    """
    folder, checkpoints = RefreshFolder(Path(settings.refreshes)), Checkpoints(Path(settings.checkpoints), "")
    mining, every = settings.mining(), settings.options.every or 1
    encoders = [load_learner(settings.model, device) for device in settings.devices]
    complained, refused = False, 0
    while True:
        mined, step = folder.newest(report=report), max(checkpoints.steps(), default=0)
        if step < (settings.first if mined is None else (mined.step // every + 1) * every):
            wait(None)
            continue
        try:
            for encoder in encoders if step else ():
                checkpoints.load_weights(encoder.module, step)
        except errors.ArtifactError:
            if max(checkpoints.steps(), default=0) == step:
                raise
            continue  # a newer one has replaced it meanwhile
        try:
            mine_refresh(encoders, mining, folder, (-1 if mined is None else mined.number) + 1 + refused, step)
            complained, refused = False, 0
        except OSError as error:
            if not complained:
                report(f"negatives of step {step} cannot be written ({error.strerror or error}); trying again later")
            complained = True
            wait(AGAIN)
        except errors.TrainingError as error:
            if mined is None and settings.first == 0:
                raise
            report(f"{error}; training goes on with what it has")
            refused += 1
            wait(None)


def main(path: str) -> None:
    """The program; its settings are in a file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer's to hear
    settings, to_trainer = Settings.read(Path(path)), partial(print, flush=True)
    torch.set_num_threads(settings.threads)
    woken = threading.Event()

    def listen() -> None:
        """The pipe from the trainer: each line wakes this process, its end ends it."""
        while sys.stdin.buffer.readline():
            woken.set()
        os._exit(0)  # at once, whatever the other threads do: nothing half-written has a name

    def wait(seconds: float | None) -> None:
        woken.wait(seconds)
        woken.clear()

    threading.Thread(target=listen, daemon=True).start()
    with RefreshFolder(Path(settings.refreshes)).alone():
        try:
            serve(settings, wait, to_trainer)
        except errors.HardnegError as error:
            to_trainer(str(error))
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
