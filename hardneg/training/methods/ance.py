"""Training on refreshed negatives (stage `train-refreshed`), mined by another process or by the trainer itself."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records import ArtifactError, HardnegError, TrainingError, UsageError
from hardneg.runtime import barrier, from_first, world
from hardneg.store import digest
from hardneg.training import batches, checkpoint, examples, sources
from hardneg.training.methods.dual_encoder import DualEncoderTraining, LossTerms
from hardneg.training.options import RefreshOptions, TrainOptions
from hardneg.training.refresh import Mining, Settings, mine_refresh

PROGRAM = (sys.executable, "-m", "hardneg.training.refresh")
PATIENCE = 10.0
"""Seconds to wait for the inferencer to exit."""
LIVES = 4
"""Maximum number of consecutive starts of the inferencer without a refresh."""
_QUERIES = 10_000  # the first ones are compared between refreshes, so that large sets take no longer


class AnceTraining(DualEncoderTraining):
    """Training of a dual encoder on refreshed negatives.

    A published refresh takes effect at the first step whose batches are not drawn yet; batches are drawn one ahead. All
    batches of a step, in all processes, use the same refresh.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 4.
    """

    def __init__(
        self,
        encoder: Encoder,
        data: examples.TrainingData,
        options: TrainOptions,
        refreshing: RefreshOptions,
        provider: "RefreshProvider",
        terms: LossTerms = LossTerms(),  # noqa: B008
    ) -> None:
        """Start with the negatives of `data`, if any. Raises UsageError for more `query_chunks` than queries."""
        if (parts := refreshing.query_chunks) > (total := len(data.query_ids)):
            raise UsageError(f"refresh.query_chunks: {total} queries cannot be split into {parts} parts; use fewer")
        super().__init__(encoder, replace(data, negatives=None), replace(options, negatives_per_query=0), terms)
        self._data, self._options, self._refreshing = data, options, refreshing
        self._provider, self._refreshes = provider, provider.refreshes
        self._all = self.examples
        self._first = None if data.negatives is None else data.examples(options)
        self._used: tuple[int, int] | None = None
        self._uses: dict[int, checkpoint.Record] = {}
        self._change: checkpoint.Record = {}
        self._seen, self._started, self._waited = -1, 0.0, 0.0

    @property
    def refresh_interval(self) -> int | None:
        return self._provider.refresh_interval

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._all.skipped

    @property
    def waited(self) -> float:
        """The fraction of time that this process has spent waiting for negatives."""
        return self._waited / max(time.monotonic() - self._started, 1e-9)

    def __len__(self) -> int:
        if not self._options.iterate_negatives:
            return len(self._all)
        return len(self._all) * max(1, self._refreshing.negatives // max(1, self._options.negatives_per_query))

    def digest(self) -> str:
        first = None if self._first is None else self._first.digest()
        return digest([self._terms.named_with(self._all.digest()), self._refreshing.identity(), first])

    def prepare(self, step: int) -> None:
        """Refresh the negatives if due, or wait for the first ones. Raises TrainingError if training has none."""
        started = time.monotonic()
        self._started = self._started or started
        self._provider.prepare(step)
        barrier()
        self._waited += time.monotonic() - started
        self._use_newest(step)

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        def planned() -> Iterator[tuple[int, sources.AnyExamples]]:
            per_step = self._options.batch_size * self._options.accumulate
            for start in starts:
                step, within = divmod(start, per_step)
                if not within:
                    self._use_newest(step)
                    if self._used is not None:
                        number, mined = self._used
                        self._uses[step] = {"refresh": number, "lag": step - mined, **self._change}
                        self._change = {}
                yield start, self.examples

        return batches.ahead(lambda planned: self.make(planned[1].draw(planned[0], size)), planned())

    def log_metrics(self, step: int) -> checkpoint.Record:
        """Return `refresh`, the number of the refresh in use, and `lag`, its model's age in steps; empty before any.

        The first step with a refresh also has `kept`, the mean fraction of negatives shared with the previous refresh.
        """
        return self._uses.pop(step - 1, {})

    def _use_newest(self, step: int) -> None:
        """Switch to the newest negatives in all processes at the same step."""
        newer = from_first(self._newer(step) if world().rank == 0 else None)
        if newer is not None:
            self._used = newer
            if world().rank > 0:
                self.examples = self._mined(newer[0])
        elif self._used is None:
            if self._first is None:
                gone = f"{self._refreshes.folder}: there are no negatives"
                raise TrainingError(f"{gone}; remove the parent folder to start afresh")
            self.examples = self._first

    def _newer(self, step: int) -> tuple[int, int] | None:
        """Open newer negatives, in the first process; return their number and step, or None if there are none."""
        newest = self._provider.newest(step)
        if newest is None or newest.step <= self._seen:
            return None
        number = newest.number
        try:
            self.examples = self._mined(number)
        except (ArtifactError, TrainingError) as error:
            self._provider.refuse(newest, error)
            if self._used is None and self._first is None:
                raise
            self._seen = self._seen if isinstance(error, ArtifactError) else newest.step
            return None
        self._seen = newest.step
        with suppress(ArtifactError):  # the refresh before may be gone
            before = self._read(number - 1) if number else self._data.negatives
            share = None if before is None else overlap(self._read(number), before)
            self._change = {} if share is None else {"kept": round(share, 4)}
        return number, newest.step

    def _read(self, number: int) -> NegativesFile:
        """Read a file of negatives into memory, since it may be removed or truncated during training."""
        return read_negatives(self._refreshes.negatives(number), whole=True)

    def _mined(self, number: int) -> examples.Examples:
        return replace(self._data, negatives=self._read(number)).examples(self._options)


def refresh_facts(
    history: list[checkpoint.Record], refreshes: list[checkpoint.Record], waited: float, documents: int
) -> dict[str, Any]:
    """Summarise the records of all steps and refreshes as facts for the manifest.

    waited: fraction of the time spent waiting. documents: number of documents encoded per refresh.
    """
    lags, counts, seconds = [record["lag"] for record in history if "lag" in record], Counter[str](), Counter[str]()
    seconds.update(dict.fromkeys(("encode", "queries", "search", "write"), 0))
    for one in refreshes:
        counts.update(one.get("counts", {}))
        seconds.update(one["seconds"])
    return {
        "refreshes made": len(refreshes),
        "refreshes used": len({record["refresh"] for record in history if "refresh" in record}),
        **({"mean lag": round(sum(lags) / len(lags), 2), "largest lag": max(lags)} if lags else {}),
        "documents encoded": len(refreshes) * documents,
        "queries searched": sum(one["queries"] for one in refreshes),
        **{f"seconds of inference: {name}": round(value, 3) for name, value in seconds.items()},
        "waiting's part of the time": round(waited, 4),
        **counts,
    }


def overlap(negatives: examples.NegativeLists, before: examples.NegativeLists) -> float | None:
    """Return the mean fraction of a query's negatives that it also has in the file `before`.

    Only queries with negatives in the first 10,000 rows of both files count. Returns None if there are no such queries.
    """
    has, had = (
        {name: {*each.pick(row, np.arange(each.counts[row]))} for row, name in enumerate(each.query_ids[:_QUERIES])}
        for each in (negatives, before)
    )
    shares = [len(own & had[name]) / len(own) for name, own in has.items() if own and had.get(name)]
    return sum(shares) / len(shares) if shares else None


class Process:
    """The inferencer process; `report` is called with each line of its output and with a message when it exits."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._settings, self._report, self._folder = settings, report, Path(settings.refreshes)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader: threading.Thread | None = None
        self.running: subprocess.Popen[str] | None = None
        self.lives = LIVES

    @property
    def exhausted(self) -> bool:
        """Whether the inferencer has crashed too often to be restarted."""
        return self.lives < 1

    def start(self) -> None:
        """Start the inferencer, which exits when this process closes the pipe."""
        path, threads = self._folder / "inferencer.json", str(self._settings.threads)
        self._settings.write(path)
        ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")  # set for one of several trainers
        environment = {name: value for name, value in os.environ.items() if name not in ranks}
        environment |= {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}
        with (self._folder / "inferencer.log").open("w") as log:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.running = subprocess.Popen([*PROGRAM, str(path)], **pipes, text=True, env=environment)
        self._reader = threading.Thread(target=self._read_output, args=(self.running,), daemon=True)
        self._reader.start()

    def wake(self) -> None:
        """Notify the inferencer of a new checkpoint."""
        if self.running and self.running.stdin:
            with suppress(OSError):
                self.running.stdin.write("\n")
                self.running.stdin.flush()

    def check(self) -> None:
        """Report the inferencer's output; restart it if it exited fewer than `LIVES` times since the last refresh."""
        ended = None if self.exhausted or self.running is None else self.running.poll()
        if ended is not None and self._reader is not None:
            self._reader.join(PATIENCE)  # its last line is reported before its end
        with suppress(Empty):
            while True:
                self._report(f"inferencer: {self._lines.get_nowait()}")
        if ended is None:
            return
        self.lives -= 1
        if ended < 0:
            end = f"was killed by {signal.Signals(-ended).name}"
        else:
            lines = (self._folder / "inferencer.log").read_text(encoding="utf-8", errors="replace").splitlines()
            end = f"exited with code {ended}" + (f" ({lines[-1].strip()})" if lines else "")
        self._report(f"inferencer: {end}; {'not restarted' if self.exhausted else 'restarted'}")
        if not self.exhausted:
            self.start()

    def stop(self) -> None:
        """Stop the inferencer by closing the pipe; kill it if it does not exit in time."""
        if self.running is None:
            return
        if self.running.stdin:
            with suppress(OSError):
                self.running.stdin.close()
        try:
            self.running.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()

    def _read_output(self, running: "subprocess.Popen[str]") -> None:
        for line in running.stdout or ():
            self._lines.put(line.rstrip())


@dataclass
class SynchronousProvider:
    """A provider that mines in the trainer's own processes at each multiple of `refresh_interval`.

    The negatives of a step depend only on the seed and the step, even in a resumed run. Damaged negatives are
    re-mined with the saved weights of the same model. first: the first step to mine at.
    """

    encoder: Encoder
    mining: Mining
    refreshes: checkpoint.RefreshFolder
    checkpoints: checkpoint.Checkpoints
    first: int
    refresh_interval: int
    report: Callable[[str], None]
    _last: checkpoint.Refresh | None = None

    def prepare(self, step: int) -> None:
        """Mine the refresh that is due at this step, unless it already exists.

        Raises:
            TrainingError: the refresh and the weights to re-mine it are missing, or there is nothing to train on.
        """
        wanted, encoder = step - step % self.refresh_interval, self.encoder
        if not from_first(world().rank == 0 and self._missing(step, wanted)):
            return
        if step != wanted:
            encoder = load_learner(self.encoder.spec, str(self.encoder.device))
            try:
                if wanted:
                    self.checkpoints.load_weights(encoder.module, wanted)
            except ArtifactError as error:
                gone = f"the negatives of step {wanted} are missing, and so are the weights to re-mine them"
                raise TrainingError(f"{self.refreshes.folder}: {gone}; remove the parent to start afresh") from error
        with self.refreshes.alone() if world().rank == 0 else nullcontext():
            self._last = mine_refresh([encoder], self.mining, self.refreshes, wanted // self.refresh_interval, wanted)
        if self._last is not None:
            self.report(str(self._last))

    def _missing(self, step: int, wanted: int) -> bool:
        """Return whether the refresh to train on at `step` is missing; called in the first process only."""
        self.refreshes.forget_after(step, self.report)
        if wanted < self.first:
            return False
        if 0 < step == wanted:
            self.checkpoints.keep_weights(step)
        self._last = self.refreshes.newest(step, self.report)
        return self._last is None or self._last.step != wanted

    def newest(self, step: int) -> checkpoint.Refresh | None:
        return self._last

    def refuse(self, refresh: checkpoint.Refresh, error: HardnegError) -> None:
        """Raise TrainingError from `error`; a damaged refresh is removed first, so that the next run re-mines it."""
        if isinstance(error, ArtifactError):
            self.refreshes.remove(refresh.number)
        raise TrainingError(f"{refresh.name}: {error}") from error


@dataclass
class BackgroundProvider:
    """A provider that mines in another process during training; if mining fails, training keeps its current negatives.

    A resumed run continues from its newest checkpoint; refreshes mined with later checkpoints are removed. needed:
    whether training must wait for the first refresh, since it has no other negatives.
    """

    process: Process
    refreshes: checkpoint.RefreshFolder
    needed: bool
    refresh_interval: int
    report: Callable[[str], None]
    _last: int = -1

    def prepare(self, step: int) -> None:
        """Start the other process, or notify it of a new checkpoint; wait while there are no negatives to train on.

        Raises:
            TrainingError: there are no negatives, and the other process has failed.
        """
        if world().rank > 0:
            return
        if self.process.running is None:
            with self.refreshes.alone():  # waits for the inferencer of a dead trainer to exit
                self.refreshes.forget_after(step, self.report)
            self.process.start()
        self.process.wake()
        while self.newest(step) is None and self.needed:
            if self.process.exhausted:
                raise TrainingError("the inferencer crashed too often before its first refresh; see its output above")
            time.sleep(0.05)

    def newest(self, step: int) -> checkpoint.Refresh | None:
        self.process.check()
        refresh = self.refreshes.newest(step, self._damaged)
        if refresh is not None and refresh.number != self._last:
            self._last = refresh.number
            self.process.lives = LIVES
            self.report(str(refresh))
        return refresh

    def refuse(self, refresh: checkpoint.Refresh, error: HardnegError) -> None:
        """Report the error; a damaged refresh is removed and re-mined."""
        if isinstance(error, ArtifactError):
            self.refreshes.remove(refresh.number)
            self._damaged(f"{refresh.name}: {error}; mining it again")
        else:
            self.report(f"{refresh.name}: {error}; not used")

    def _damaged(self, line: str) -> None:
        self.report(line)
        self.process.wake()


RefreshProvider = SynchronousProvider | BackgroundProvider
"""The trainer's source of refreshes. All processes call `prepare`; only the first one calls the other methods."""
