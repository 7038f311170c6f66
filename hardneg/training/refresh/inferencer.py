"""The inferencer, a process beside the trainer: it loads the newest checkpoint, mines, publishes, and starts over.

It ends with the trainer, even a killed one: the system then closes the pipe between the two.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from pydantic import TypeAdapter

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import with_positives
from hardneg.formats.qrels import positives
from hardneg.formats.segments import Segments
from hardneg.mining.choosing import Filters
from hardneg.mining.filters import MiningTexts
from hardneg.records import ArtifactError, HardnegError, PluginSetting, TrainingError
from hardneg.registry import configure
from hardneg.store import replace_text
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.examples import TrainingData
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.mining import Mining, known_to_be_relevant, mine_refresh
from hardneg.training.refresh.refresh_options import RefreshOptions

AGAIN = 30.0
"""Seconds before it retries a failed write."""


@dataclass(frozen=True)
class Settings:
    """What the trainer hands over.

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
    miner: PluginSetting | None = None
    filters: tuple[PluginSetting, ...] = ()
    backend: PluginSetting | None = None

    def write(self, path: Path) -> None:
        replace_text(path, TypeAdapter(Settings).dump_json(self, indent=1).decode() + "\n")

    @classmethod
    def read(cls, path: Path) -> "Settings":
        return TypeAdapter(cls).validate_json(path.read_bytes())

    def mining(self) -> Mining:
        """What a refresh mines, and how."""
        collection = StoredCollection.open(Path(self.collection))
        queries, options = collection.queries(self.split), self.options
        known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
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
    mining = settings.mining()
    encoders = [load_learner(settings.model, device) for device in settings.devices]
    complained, refused = False, 0
    while True:
        mined, step = folder.newest(report=report), max(checkpoints.steps(), default=0)
        every = settings.options.every or 1
        if step < (settings.first if mined is None else (mined.step // every + 1) * every):
            wait(None)
            continue
        try:
            for encoder in encoders if step else ():
                checkpoints.load_weights(encoder.module, step)
        except ArtifactError:
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
        except TrainingError as error:
            if mined is None and settings.first == 0:
                raise
            report(f"{error}; training goes on with what it has")
            refused += 1
            wait(None)


def main(path: str) -> None:
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
        except HardnegError as error:
            to_trainer(str(error))
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
