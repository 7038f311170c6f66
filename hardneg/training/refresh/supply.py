"""Where the trainer's refreshes come from: another process beside it, or itself while it waits."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from hardneg.errors import TrainingError
from hardneg.models.encoder import Encoder
from hardneg.training.refresh.folder import Refresh, Refreshes
from hardneg.training.refresh.mining import Mining, mine_refresh
from hardneg.training.refresh.process import Process

Told = Callable[[str], None]


class Supply(Protocol):
    """What the first of the trainer's processes asks for refreshes; the others are told."""

    @property
    def pause(self) -> int | None:
        """Steps between checkpoints that are made for it."""
        ...

    def prepare(self, step: int) -> None:
        """Called before training starts or goes on at a step, where there is a checkpoint."""
        ...

    def newest(self, step: int) -> Refresh | None:
        """What there is at this step to train on, without waiting."""
        ...


@dataclass
class Waiting:
    """Mines in the trainer's own process at every multiple of `pause`, or once where that is None.

    So what is trained on at a step is a function of the seed and the step, whenever the run was stopped and continued.
    first: the first step to mine at.
    """

    encoder: Encoder
    mining: Mining
    place: Refreshes
    first: int
    pause: int | None
    told: Told
    _last: Refresh | None = None

    def prepare(self, step: int) -> None:
        """Mines where it is time to, unless that is done already.

        Raises:
            TrainingError: what is to be trained on here is not there any more.
        """
        wanted = step - step % self.pause if self.pause else 0
        self.place.forget_after(step, self.told)
        if wanted < self.first:
            return
        found = self.place.newest(step, self.told)
        if found is not None and found.step == wanted:
            self._last = found
        elif step != wanted:
            raise TrainingError(
                f"{self.place.folder}: the negatives of step {wanted} are gone: remove its parent to start afresh"
            )
        else:
            number = wanted // self.pause if self.pause else 0
            with self.place.alone():
                self._last = mine_refresh([self.encoder], self.mining, self.place, number, wanted)
            self.told(str(self._last))

    def newest(self, step: int) -> Refresh | None:
        """What was mined at the last multiple."""
        return self._last


@dataclass
class Beside:
    """Mined by another process; training goes on meanwhile, and with what it has when that process cannot go on.

    After a stop, training goes on from its newest checkpoint: what was mined with later ones is forgotten.
    needed: whether there is nothing to train on until the first refresh.
    """

    process: Process
    place: Refreshes
    needed: bool
    pause: int | None
    told: Told
    _last: int = -1

    def prepare(self, step: int) -> None:
        """Starts the other process, or tells it of the checkpoint; waits where there is nothing to train on.

        Raises:
            TrainingError: there is nothing to train on, and the other process cannot go on.
        """
        if not self.process.started:
            with self.place.alone():  # until one that a dead trainer has left is gone
                self.place.forget_after(step, self.told)
            self.process.start()
        self.process.wake()
        while self.newest(step) is None and self.needed:
            if self.process.given_up:
                raise TrainingError("the inferencer has died too often before its first refresh: see the lines above")
            time.sleep(0.05)

    def newest(self, step: int) -> Refresh | None:
        """The newest that there is."""
        self.process.check()
        found = self.place.newest(step, self._damaged)
        if found is not None and found.number != self._last:
            self._last = found.number
            self.process.alive_again()
            self.told(str(found))
        return found

    def _damaged(self, line: str) -> None:
        self.told(line)
        self.process.wake()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ends the other process at the end of the block."""
        try:
            yield
        finally:
            self.process.stop()
