"""Providers of refreshes: another process, started, woken and stopped here, or the trainer itself while it waits."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.records import ArtifactError, HardnegError, TrainingError
from hardneg.runtime import from_first, world
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.refresh.folder import Refresh, RefreshFolder
from hardneg.training.refresh.mining import Mining, Settings, mine_refresh

PROGRAM = (sys.executable, "-m", "hardneg.training.refresh.mining")
PATIENCE = 10.0
"""Seconds that it may take to end."""
LIVES = 4
"""Starts in a row without a refresh in between."""


class Process:
    """One inferencer; `report` gets each line of its output, and one line when it ends."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._settings, self._report, self._folder = settings, report, Path(settings.refreshes)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._hearing: threading.Thread | None = None
        self.running: subprocess.Popen[str] | None = None
        self.lives = LIVES

    @property
    def exhausted(self) -> bool:
        """Whether it has died too often to be started again."""
        return self.lives < 1

    def start(self) -> None:
        """Start it; it ends when this process closes the pipe."""
        path, threads = self._folder / "inferencer.json", str(self._settings.threads)
        self._settings.write(path)
        ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")  # of one of several trainers
        environment = {name: value for name, value in os.environ.items() if name not in ranks}
        environment |= {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}
        with (self._folder / "inferencer.log").open("w") as log:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.running = subprocess.Popen([*PROGRAM, str(path)], **pipes, text=True, env=environment)
        self._hearing = threading.Thread(target=self._hear, args=(self.running,), daemon=True)
        self._hearing.start()

    def wake(self) -> None:
        """Signal a new checkpoint."""
        if self.running and self.running.stdin:
            with suppress(OSError):
                self.running.stdin.write("\n")
                self.running.stdin.flush()

    def check(self) -> None:
        """Report its lines, and start it again if it has died, unless too often."""
        ended = None if self.exhausted or self.running is None else self.running.poll()
        if ended is not None and self._hearing is not None:
            self._hearing.join(PATIENCE)  # so that its last line comes before its end
        with suppress(Empty):
            while True:
                self._report(f"inferencer: {self._lines.get_nowait()}")
        if ended is None:
            return
        self.lives -= 1
        again = "it is not started again" if self.exhausted else "it is started again"
        if ended < 0:
            end = f"was killed by {signal.Signals(-ended).name}"
        else:
            lines = (self._folder / "inferencer.log").read_text(encoding="utf-8", errors="replace").splitlines()
            end = f"ended with code {ended}" + (f" ({lines[-1].strip()})" if lines else "")
        self._report(f"inferencer: {end}; {again}")
        if not self.exhausted:
            self.start()

    def stop(self) -> None:
        """Close the pipe, which ends it; kill one that does not listen."""
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

    def _hear(self, running: "subprocess.Popen[str]") -> None:
        for line in running.stdout or ():
            self._lines.put(line.rstrip())


@dataclass
class SynchronousProvider:
    """Mines in the trainer's own processes, all of them, at each multiple of `refresh_interval`.

    The negatives of a step depend on the seed and the step alone, even in a resumed run. Damaged negatives are mined
    again by the model that mined them: its weights are kept. first: the first step to mine at.
    """

    encoder: Encoder
    mining: Mining
    refreshes: RefreshFolder
    checkpoints: Checkpoints
    first: int
    refresh_interval: int
    report: Callable[[str], None]
    _last: Refresh | None = None

    def prepare(self, step: int) -> None:
        """Mine at a multiple of the interval, unless that is done already.

        Raises:
            TrainingError: the negatives of this step and the weights that mined them are gone, or there is nothing to
                train on.
        """
        wanted, encoder = step - step % self.refresh_interval, self.encoder
        if not from_first(world().first and self._missing(step, wanted)):
            return
        if step != wanted:  # by the model that mined them
            encoder = load_learner(self.encoder.spec, str(self.encoder.device))
            try:
                if wanted:
                    self.checkpoints.load_weights(encoder.module, wanted)
            except ArtifactError as error:
                gone = f"the negatives of step {wanted} are gone, and so are the weights that mined them"
                raise TrainingError(f"{self.refreshes.folder}: {gone}: remove its parent to start afresh") from error
        with self.refreshes.alone() if world().first else nullcontext():
            self._last = mine_refresh([encoder], self.mining, self.refreshes, wanted // self.refresh_interval, wanted)
        if self._last is not None:
            self.report(str(self._last))

    def _missing(self, step: int, wanted: int) -> bool:
        """Whether the refresh to train on at `step` is missing, in the first process."""
        self.refreshes.forget_after(step, self.report)
        if wanted < self.first:
            return False
        if 0 < step == wanted:
            self.checkpoints.keep_weights(step)
        self._last = self.refreshes.newest(step, self.report)
        return self._last is None or self._last.step != wanted

    def newest(self, step: int) -> Refresh | None:
        return self._last

    def refuse(self, refresh: Refresh, error: HardnegError) -> None:
        """Always raises; a damaged refresh is removed, so that the next run mines it again."""
        if isinstance(error, ArtifactError):
            self.refreshes.remove(refresh.number)
        raise TrainingError(f"{refresh.name}: {error}") from error


@dataclass
class BackgroundProvider:
    """Mines in another process while training continues; if that process fails, training keeps its negatives.

    A resumed training continues from its newest checkpoint; refreshes mined with later ones are removed.
    needed: whether there is nothing to train on until the first refresh.
    """

    process: Process
    refreshes: RefreshFolder
    needed: bool
    refresh_interval: int
    report: Callable[[str], None]
    _last: int = -1

    def prepare(self, step: int) -> None:
        """Start the other process, or signal the checkpoint; wait where there is nothing to train on.

        Raises:
            TrainingError: there is nothing to train on, and the other process has failed.
        """
        if not world().first:
            return
        if self.process.running is None:
            with self.refreshes.alone():  # until one that a dead trainer has left is gone
                self.refreshes.forget_after(step, self.report)
            self.process.start()
        self.process.wake()
        while self.newest(step) is None and self.needed:
            if self.process.exhausted:
                raise TrainingError("the inferencer has died too often before its first refresh: see the lines above")
            time.sleep(0.05)

    def newest(self, step: int) -> Refresh | None:
        self.process.check()
        refresh = self.refreshes.newest(step, self._damaged)
        if refresh is not None and refresh.number != self._last:
            self._last = refresh.number
            self.process.lives = LIVES
            self.report(str(refresh))
        return refresh

    def refuse(self, refresh: Refresh, error: HardnegError) -> None:
        """Report it; a damaged refresh is removed and mined again."""
        if isinstance(error, ArtifactError):
            self.refreshes.remove(refresh.number)
            self._damaged(f"{refresh.name}: {error}; it is mined again")
        else:
            self.report(f"{refresh.name}: {error}; it is not used")

    def _damaged(self, line: str) -> None:
        self.report(line)
        self.process.wake()


RefreshProvider = SynchronousProvider | BackgroundProvider
"""The trainer's source of refreshes: all processes call `prepare`, the first one the rest."""
