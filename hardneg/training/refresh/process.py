"""The inferencer's process as the trainer sees it: started, woken, started again when it dies, ended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from hardneg.training.refresh.inferencer import Settings

_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""What tells a process that it is one of several trainers."""

PROGRAM = (sys.executable, "-m", "hardneg.training.refresh.inferencer")

PATIENCE = 10.0
"""Seconds that it has to end."""

LIVES = 4
"""How often in a row it is started without a refresh in between."""


class Process:
    """One inferencer; `told` hears in one line what it says, and how it ends."""

    def __init__(self, settings: Settings, told: Callable[[str], None]) -> None:
        self._settings, self._told = settings, told
        self._folder = Path(settings.refreshes)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._hearing: threading.Thread | None = None
        self._running: subprocess.Popen[str] | None = None
        self._lives = LIVES

    @property
    def started(self) -> bool:
        """Whether it has ever been started."""
        return self._running is not None

    @property
    def given_up(self) -> bool:
        """Whether it has died too often."""
        return self._lives < 1

    def start(self) -> None:
        """Starts it; its end of the pipe tells it when this process is gone."""
        path, threads = self._folder / "inferencer.json", str(self._settings.threads)
        self._settings.write(path)
        environment = {name: value for name, value in os.environ.items() if name not in _PLACE}
        environment |= {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}
        with (self._folder / "inferencer.log").open("w") as log:
            self._running = subprocess.Popen(
                [*PROGRAM, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self._hearing = threading.Thread(target=self._hear, args=(self._running,), daemon=True)
        self._hearing.start()

    def wake(self) -> None:
        """Tells it that there is a new checkpoint."""
        if self._running and self._running.stdin:
            with suppress(OSError):
                self._running.stdin.write("\n")
                self._running.stdin.flush()

    def alive_again(self) -> None:
        """A refresh has come: it may die as often as before."""
        self._lives = LIVES

    def check(self) -> None:
        """Passes on what it said, and starts it again if it has died, unless it has too often."""
        ended = None if self.given_up or self._running is None else self._running.poll()
        if ended is not None and self._hearing is not None:
            self._hearing.join(PATIENCE)  # so that its last line comes before its end
        with suppress(Empty):
            while True:
                self._told(f"inferencer: {self._lines.get_nowait()}")
        if ended is None:
            return
        self._lives -= 1
        again = "it is not started again" if self.given_up else "it is started again"
        self._told(f"inferencer: {self._how(ended)}; {again}")
        if not self.given_up:
            self.start()

    def stop(self) -> None:
        """Ends it, whatever it is doing."""
        if self._running is None:
            return
        if self._running.stdin:
            with suppress(OSError):
                self._running.stdin.close()
        try:
            self._running.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()

    def _hear(self, running: "subprocess.Popen[str]") -> None:
        for line in running.stdout or ():
            self._lines.put(line.rstrip())

    def _how(self, code: int) -> str:
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        lines = (self._folder / "inferencer.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return f"ended with code {code}" + (f" ({lines[-1].strip()})" if lines else "")
