"""Refreshing negatives during training: encode the corpus, search it with the training queries, and mine.

The inferencer is a separate program that does this in a loop: it loads the newest checkpoint, mines, and publishes the
negatives. It exits with the trainer, even if the trainer is killed: the system then closes the pipe between the two.
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

from hardneg.encoders import protocol, spec, stream
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.formats import negatives, qrels, runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.segments import Segments
from hardneg.indexes.candidate_scoring import pooled
from hardneg.indexes.exact import ExactOptions, ExactSearcher
from hardneg.indexes.open_store import open_store
from hardneg.mining import choosing
from hardneg.mining.filters import Filters, MiningTexts, paired
from hardneg.mining.ranks import Sampled, TopK
from hardneg.protocols import IndexBackend, NegativeMiner, Searcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import configure
from hardneg.runtime import Seconds, Silent, barrier, derive_seed, world
from hardneg.store import replace_text
from hardneg.training import examples
from hardneg.training.checkpoint import Checkpoints, Refresh, RefreshFolder
from hardneg.training.options import RefreshOptions

AGAIN = 30.0
"""Seconds before the inferencer retries a failed write."""
_BLOCKS = 16  # blocks of queries searched at a time and held in memory


@dataclass(frozen=True)
class FirstNegatives:
    """A miner that keeps the first `count` negatives of another miner."""

    version: ClassVar[int] = 1

    miner: NegativeMiner
    count: int

    def mine(self, candidates: Iterable[types.Candidates], *, seed: int) -> Iterator[types.Negatives]:
        """Yield the first `count` negatives of each query, one item per query, in the order of `candidates`."""
        for query, mined in paired(candidates, partial(self.miner.mine, seed=seed)):
            first, scores = mined.negatives[: self.count], mined.scores[: self.count]
            yield types.Negatives(query.query_id, query.positives, list(first), scores, mined.dropped)


@dataclass(frozen=True)
class Mining:
    """The mining configuration shared by all refreshes.

    seed: seed of all sampling, which otherwise depends only on the refresh and the query. miner: plugin that selects
    negatives from the top hits; None uses option `choice`. backend: index to build and search; None searches exactly.
    """

    data: examples.TrainingData
    options: RefreshOptions
    seed: int
    filters: Filters = Filters()  # noqa: RUF009
    miner: NegativeMiner | None = None
    backend: IndexBackend | None = None

    def trainable(self, number: int) -> list[int]:
        """Return the positions of the queries in the part of refresh `number`, except queries without a positive."""
        data = self.data
        queries = chunk(len(data.query_ids), number, self.options.query_chunks)
        return [position for position in queries if data.positives.get(data.query_ids[position])]

    def selection(self, number: int) -> choosing.Choosing:
        """Return the object that selects the negatives of refresh `number` from the top hits."""
        data, chosen, seed = self.data, self.options, derive_seed(self.seed, "refresh", number)
        if self.miner is not None:
            miner: NegativeMiner = FirstNegatives(self.miner, chosen.negatives)
        elif chosen.choice == "top":
            miner = TopK(chosen.negatives)
        else:
            miner = Sampled(chosen.depth, chosen.negatives)
        return choosing.Choosing(data.corpus, data.positives, miner, self.filters, seed)

    def searcher(self, folder: Path, device: str) -> Searcher:
        """Return a searcher over the vectors in `folder`: the backend's index or, without one, an exact searcher."""
        exact, built = ExactOptions(device=device), folder / "searched"
        if self.backend is None:
            searcher: Searcher = open_store(folder, exact)
        else:
            shutil.rmtree(built, ignore_errors=True)  # a killed process may have left one
            built.mkdir()
            self.backend.build(folder, built, Silent())
            searcher = self.backend.open(built, self.data.corpus.rows)
            searcher = searcher.using(exact, None) if isinstance(searcher, ExactSearcher) else searcher
        return pooled(searcher, folder, self.data.corpus.doc_ids)


def chunk(count: int, number: int, chunks: int) -> range:
    """Split `count` items into `chunks` parts, the last with the rest; return the range of part `number` % `chunks`."""
    size, position = count // chunks, number % chunks
    return range(position * size, count if position == chunks - 1 else (position + 1) * size)


def known_to_be_relevant(
    positives: Mapping[str, Sequence[str]], refresh: RefreshOptions
) -> Mapping[str, Sequence[str]]:
    """Return each query's positives for training and mining: all, or only the last if option `excluded` is `last`."""
    if refresh.excluded == "last":
        return {query_id: doc_ids[-1:] for query_id, doc_ids in positives.items()}
    return positives


def mine_refresh(
    encoders: Sequence[Encoder], mining: Mining, refreshes: RefreshFolder, number: int, step: int
) -> Refresh | None:
    """Mine with the model of training step `step` and publish the result as refresh `number`, counted from 0.

    Memory does not grow with the corpus, since its vectors are written and searched block by block. Vectors of the same
    model that a killed process left behind are reused. In a distributed run, each process makes the same call and
    encodes a part of the corpus; the first process does the rest and returns the refresh; the others return None.

    encoders: one copy of the model per device; each encodes a part of the corpus, and the first encodes the queries.

    Raises:
        OSError: writing failed, for example because the disk is full; the partial refresh is removed.
        TrainingError: no query of this refresh has a positive, or none has a negative; nothing is published.
    """
    if not mining.trainable(number):
        total = len(mining.data.query_ids)
        queries = wording.counted(len(chunk(total, number, mining.options.query_chunks)), "query")
        message = f"none of its {queries} (of {total} in total) has a positive; use fewer query_chunks"
        raise errors.TrainingError(f"refresh {number}: nothing to train on, as {message}")
    seconds, first, folder = Seconds(), world().rank == 0, refreshes.vectors(step)
    precision = protocol.EncodeOptions(precision=mining.options.precision)
    if first:
        refreshes.tidy(step)
    barrier()
    try:
        with seconds.of("encode"):
            rows = encoders[0].rows(mining.data.corpus, mining.data.segments, refreshes.folder, Silent(), world())
            stream.write_index(encoders, rows, folder, precision, Silent())
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
        lists = _hits(encoder, searcher, mining, planned.number, seconds)
        negatives.write_negatives(folder / layout.NEGATIVES, mining.selection(planned.number).negatives(lists, facts))
    counts = {name: count for name, count in facts.items() if name.startswith((choosing.LEFT_OUT, choosing.SEEN_BY))}
    refresh = Refresh(planned.number, planned.step, facts["queries"], facts["negatives"], seconds, counts)
    if not refresh.negatives:
        refreshes.tidy(planned.step)  # keeps the vectors for the next attempt
        top = f"the top {mining.options.depth} documents of all {refresh.queries} queries are relevant or filtered out"
        raise errors.TrainingError(f"refresh {refresh.number}: no negatives, as {top}; raise depth or filter less")
    refreshes.publish(refresh)
    shutil.rmtree(vectors)
    return refresh


def _hits(
    encoder: Encoder, searcher: Searcher, mining: Mining, number: int, seconds: Seconds
) -> Iterator[runs.QueryLists]:
    """Yield the hits of each query that has positives."""
    data, queries, depth = mining.data, mining.trainable(number), mining.options.depth
    texts = [data.texts[position] for position in queries]
    precision = protocol.EncodeOptions(precision=mining.options.precision)
    encode: Any = partial(encoder.encode, side="query", options=precision)
    blocks = choosing.search_queries(encode, texts, searcher, depth, _BLOCKS * encoder.block, seconds)
    for window, vectors, hits in blocks:
        query_ids, tops = [data.query_ids[position] for position in queries[window]], choosing.as_lists(hits)
        if choosing.compares(mining.miner, *mining.filters.plugins):  # adds the positives that the search missed
            known = [data.positives[query_id] for query_id in query_ids]
            with seconds.of("search"):
                tops = iter([*choosing.with_positives(hits, searcher, vectors, known, data.corpus)])
        for query_id, (rows, scores) in zip(query_ids, tops, strict=True):
            yield query_id, {"dense": types.RankedList(data.corpus.ids(rows), scores)}


@dataclass(frozen=True)
class Settings:
    """The inferencer's settings, written by the trainer.

    model: the initial model. collection, checkpoints, refreshes: folders. split: split of the training queries. first:
    first step to mine at. devices: devices to encode on. threads: number of CPU threads. segments: windows to split
    documents into, if any. pseudo_positives: file of negatives whose positives also count as relevant. miner, filters,
    backend: plugins, as in `Mining`.
    """

    model: spec.ModelSpec
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
        """Open the collection, configure the plugins, and return the mining configuration."""
        collection, refresh = StoredCollection.open(Path(self.collection)), self.options
        queries = collection.queries(self.split)
        known: Mapping[str, Sequence[str]] = qrels.positives(collection.all_qrels())
        if self.pseudo_positives is not None:
            known = negatives.with_positives(known, Path(self.pseudo_positives))
        known = known_to_be_relevant(known, refresh)
        data = examples.TrainingData(collection.corpus, queries.query_ids, queries.texts, known, segments=self.segments)
        match = refresh.answer_match if refresh.without_answers else None
        plugins = [configure("filters", each) for each in self.filters]
        excluding = Filters.of(MiningTexts(collection, self.split), plugins, match, known)
        miner = None if self.miner is None else configure("miners", self.miner)
        backend = None if self.backend is None else configure("indexes", self.backend)
        return Mining(data, refresh, self.seed, excluding, miner, backend)


def serve(settings: Settings, wait: Callable[[float | None], None], report: Callable[[str], None]) -> None:
    """Mine with the newest checkpoint whenever a refresh is due; never return.

    A checkpoint that is removed while it is being read is skipped. A failed write, as on a full disk, is reported once,
    and mining is retried at the next checkpoint or after `AGAIN` seconds. A refresh with nothing to train on is
    reported, and the next part of the queries is mined with the next checkpoint.

    wait: function that waits for a new checkpoint or a timeout in seconds. report: function that receives messages.
    Raises ArtifactError if the newest checkpoint is damaged; TrainingError if the first refresh is needed but empty.
    """
    folder = RefreshFolder(Path(settings.refreshes))
    checkpoints = Checkpoints(Path(settings.checkpoints), "")
    mining, every = settings.mining(), settings.options.every or 1
    encoders = [load_learner(settings.model, device) for device in settings.devices]
    reported, refused = False, 0
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
            continue  # replaced by a newer one
        try:
            mine_refresh(encoders, mining, folder, (-1 if mined is None else mined.number) + 1 + refused, step)
            reported, refused = False, 0
        except OSError as error:
            if not reported:
                report(f"cannot write the negatives of step {step} ({error.strerror or error}); will retry")
            reported = True
            wait(AGAIN)
        except errors.TrainingError as error:
            if mined is None and settings.first == 0:
                raise
            report(f"{error}; training continues with its current negatives")
            refused += 1
            wait(None)


def main(path: str) -> None:
    """Run the inferencer with the settings in file `path` until the trainer exits or mining fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # left to the trainer
    settings, to_trainer = Settings.read(Path(path)), partial(print, flush=True)
    torch.set_num_threads(settings.threads)
    wake = threading.Event()

    def listen() -> None:
        """Wake the main thread at each line from the trainer; exit when the trainer closes the pipe."""
        while sys.stdin.buffer.readline():
            wake.set()
        os._exit(0)  # without waiting for other threads: partial files are never published

    def wait(seconds: float | None) -> None:
        wake.wait(seconds)
        wake.clear()

    threading.Thread(target=listen, daemon=True).start()
    with RefreshFolder(Path(settings.refreshes)).alone():
        try:
            serve(settings, wait, to_trainer)
        except errors.HardnegError as error:
            to_trainer(str(error))
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
