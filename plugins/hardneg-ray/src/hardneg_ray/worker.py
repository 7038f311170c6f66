"""The actor, which opens a stage once and computes its blocks, and its messages to the driver."""

import json
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray

import hardneg.plugin as hp

_PATIENCE = 10.0  # seconds for a network file system to show written files


@dataclass(frozen=True)
class Opened:
    """The message that an actor is ready. node: the name of its machine."""

    node: str


@dataclass(frozen=True)
class Block:
    """The message that a block is written."""

    number: int


@dataclass(frozen=True)
class Failed:
    """The message of an error. class_name: its hardneg class, empty for other errors. trace: its traceback."""

    class_name: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """Return the message of a caught error, with its traceback."""
        classes = [
            each.__name__ for each in type(error).__mro__ if each.__module__ == hp.errors.HardnegError.__module__
        ]
        trace = "".join(traceback.format_exception(error))
        return cls(classes[0] if isinstance(error, hp.errors.HardnegError) else "", str(error), trace)

    def error(self) -> Exception:
        """Return the error to raise in the driver: of the same hardneg class, or a RuntimeError with the traceback."""
        if not self.class_name:
            return RuntimeError(f"an actor failed:\n{self.trace}")
        error_class = getattr(sys.modules[hp.errors.HardnegError.__module__], self.class_name)
        raised: hp.errors.HardnegError = error_class.__new__(error_class)
        hp.errors.HardnegError.__init__(raised, self.text)
        return raised


Report = Opened | Block | Failed


class Desk:
    """An actor on the driver's machine that records, in a file, the choices that all actors must share."""

    def __init__(self, choices: Path) -> None:
        self._file, self._choices = choices, choices_in(choices)

    def chosen(self, subject: str) -> str | None:
        """Return the recorded choice for a subject, or None if no choice is recorded."""
        return self._choices.get(subject)

    def settle(self, subject: str, proposal: str) -> str:
        """Return the choice that all actors share: the first proposal for the subject, which is recorded."""
        if subject not in self._choices:
            self._choices[subject] = proposal
            hp.stores.replace_text(self._file, json.dumps(self._choices, indent=1, sort_keys=True))
        return self._choices[subject]


def choices_file(folder: Path) -> Path:
    """Return the path of the choices file in the folder of an unfinished stage."""
    return folder / hp.stores.SCRATCH / hp.stores.CHOICES


def choices_in(path: Path) -> dict[str, str]:
    """Return the recorded choices by subject; empty if the file does not exist."""
    chosen: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return chosen


def token_file(folder: Path) -> Path:
    """Return the path of the file with which actors check that they see the same folder as the driver."""
    return folder / hp.stores.SCRATCH / "driver"


class BlockActor:
    """An actor that computes blocks of one stage."""

    def __init__(self, context: hp.stages.StageContext[hp.stages.StageSpec], token: str, desk: Any) -> None:
        """Create the actor; `open` opens the stage. token: text in the driver's `token_file`. desk: a `Desk` actor."""
        self._context, self._token, self._desk = context, token, desk
        self._blocks: hp.stage_work.StageBlocks | None = None

    def open(self) -> Report:
        """Open the stage; return `Opened`, or `Failed`, for instance if this machine cannot see the stage's folder."""
        report: Report = self._reported(self._open)
        return report

    def _open(self) -> Report:
        def settled(subject: str, make: Callable[[], str]) -> str:
            known = ray.get(self._desk.chosen.remote(subject))
            return str(known if known is not None else ray.get(self._desk.settle.remote(subject, make())))

        hp.runtime.settle_by(settled)
        end, path = time.monotonic() + _PATIENCE, token_file(self._context.folder)
        while not path.exists() or path.read_text(encoding="utf-8") != self._token:
            if time.monotonic() > end:
                problem = f"{socket.gethostname()} cannot see {self._context.folder}"
                raise hp.errors.UsageError(f"engine ray: {problem}; put the store at a path that all machines share")
            time.sleep(0.2)
        self._blocks = self._context.spec.make(replace(self._context, first=False))
        return Opened(socket.gethostname())

    def make(self, numbers: Sequence[int]) -> Iterator[Report]:
        """Compute the given blocks and yield a message for each one written; an error is the last message."""
        blocks = self._blocks
        assert blocks is not None

        def write(produced: Iterator[tuple[int, Any]]) -> Report | None:
            if (made := next(produced, None)) is None:
                return None
            blocks.write(*made)
            return Block(made[0])

        with hp.runtime.Silent().task("", None, "") as task:
            produced = blocks.make(numbers, task)
            while (report := self._reported(partial(write, produced))) is not None:
                yield report
                if isinstance(report, Failed):
                    return

    def _reported(self, work: Callable[[], Any]) -> Any:
        """Return a function's result, or its error as data."""
        try:
            with hp.registry.plugin_errors([*self._context.plugins.values(), self._context.spec]):
                return work()
        except Exception as error:
            return Failed.of(error)
