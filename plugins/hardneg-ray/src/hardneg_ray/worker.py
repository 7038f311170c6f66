"""The actor: opens a stage once, then makes the blocks that it is given; and what it sends to the driver."""

import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray

from hardneg.plugin import (
    QUERIES,
    SCRATCH,
    HardnegError,
    Silent,
    StageBlocks,
    StageContext,
    StageSpec,
    plugin_errors,
    settle_by,
)
from hardneg_ray.travel import Traveller


@dataclass(frozen=True)
class Opened:
    """An actor is ready; node: the name of its machine. shared: whether it writes its blocks itself."""

    node: str
    shared: bool


@dataclass(frozen=True)
class Block:
    """A block is made; content: of one that the driver is to write."""

    number: int
    content: Any = None


@dataclass(frozen=True)
class Failed:
    """An error; class_name: the name of its class among hardneg's, empty for others."""

    class_name: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """An error as it was caught."""
        classes = [each.__name__ for each in type(error).__mro__ if each.__module__ == HardnegError.__module__]
        trace = "".join(traceback.format_exception(error))
        return cls(classes[0] if isinstance(error, HardnegError) else "", str(error), trace)

    def error(self) -> Exception:
        """The same, to raise here; one that hardneg does not know comes with its trace."""
        if not self.class_name:
            return RuntimeError(f"an actor failed:\n{self.trace}")
        error_class = getattr(sys.modules[HardnegError.__module__], self.class_name)
        raised: HardnegError = error_class.__new__(error_class)
        HardnegError.__init__(raised, self.text)
        return raised


Report = Opened | Block | Failed
_PATIENCE = 10.0  # seconds, for a network file system to show what was written


@dataclass(frozen=True)
class Assignment:
    """What an actor is to work on.

    token: what the driver has written into the stage's folder. shared: whether that is seen from its machine; None is
    to look. store: where inputs are kept that its machine lacks. manifests: as `Traveller` has them.
    """

    context: StageContext[StageSpec]
    token: str
    shared: bool | None
    store: str | None
    manifests: Mapping[str, str | None]
    desk: Any


class BlockActor:
    """Makes blocks of one stage."""

    def __init__(self, assignment: Assignment) -> None:
        """Quick: the stage is opened when it is asked to."""
        self._assignment = assignment
        self._shared = False
        self._blocks: StageBlocks | None = None
        self._context = assignment.context

    def open(self) -> Report:
        """Opens the stage, whose inputs are fetched where this machine lacks them."""
        report: Report = self._reported(self._open)
        return report

    def _open(self) -> Report:
        own = self._assignment
        settle_by(partial(_settled, own.desk))
        self._shared = self._sees() if own.shared is None else own.shared
        traveller = Traveller.of(own.desk, own.store, own.manifests)
        folder = own.context.folder if self._shared else self._own_folder(traveller)
        self._context = replace(own.context, folder=folder, inputs=traveller.inputs(own.context.inputs))
        self._blocks = self._context.spec.blocks(self._context, first=False)
        return Opened(socket.gethostname(), self._shared)

    def _sees(self) -> bool:
        """Whether this machine sees what the driver has written."""
        end, path = time.monotonic() + _PATIENCE, token_file(self._assignment.context.folder)
        while time.monotonic() < end and path.parents[2].exists():
            if path.exists() and path.read_text(encoding="utf-8") == self._assignment.token:
                return True
            time.sleep(0.2)
        return False

    def _own_folder(self, traveller: Traveller) -> Path:
        """A folder of this machine, with the queries of a file that stand in the driver's."""
        folder, source = Path(tempfile.mkdtemp(prefix="hardneg-")), self._assignment.context.folder
        if (size := ray.get(self._assignment.desk.size.remote(source / QUERIES))) is not None:
            traveller.copy_file(source / QUERIES, size, folder / QUERIES)
        return folder

    def make(self, numbers: Sequence[int]) -> Iterator[Report]:
        """Each of these blocks when it is written, or to be written by the driver; an error ends them."""
        blocks = self._blocks
        assert blocks is not None
        with Silent().task("", None, "") as task:
            produced = blocks.make(numbers, task)
            while (report := self._reported(partial(self._next, blocks, produced))) is not None:
                yield report
                if isinstance(report, Failed):
                    return

    def _next(self, blocks: StageBlocks, produced: Iterator[tuple[int, Any]]) -> Report | None:
        if (made := next(produced, None)) is None:
            return None
        number, content = made
        if not self._shared:
            return Block(number, content)
        blocks.write(number, content)
        return Block(number)

    def _reported(self, work: Callable[[], Any]) -> Any:
        """What some work gives, or its error as data."""
        context = self._context
        try:
            with plugin_errors([*context.plugins.values(), context.spec]):
                return work()
        except Exception as error:
            return Failed.of(error)


def token_file(folder: Path) -> Path:
    """Where the driver writes what actors look for, to know whether they see the stage's folder."""
    return folder / SCRATCH / "driver"


def _settled(desk: Any, subject: str, make: Callable[[], str]) -> str:
    """What was chosen for a subject by the first actor that asked, or is made here if this is it."""
    known = ray.get(desk.chosen.remote(subject))
    return str(known if known is not None else ray.get(desk.settle.remote(subject, make())))
