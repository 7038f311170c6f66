"""The contract of engines (`hardneg.verbs.shared.context.Engine`) as tests."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from hardneg.formats.vectors.journal import Journal
from hardneg.records.errors import DataError, HardnegError
from hardneg.runtime.progress import Silent
from hardneg.store.artifacts import SCRATCH
from hardneg.store.atomic_write import replacing
from hardneg.testing.plugin_contract import PluginTests, rule
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.stage_spec import StageSpec

_SQUARES, _JOURNAL = "squares", "squares.journal"


class Squares(StageSpec):
    """A stage to test engines with: writes the squares of 0 to `count`, some in each block.

    pause: seconds that a block takes. broken: a number that raises an error.
    """

    version = 1
    artifact_type = "numbers"
    resumes = True
    stage: Literal["squares"] = "squares"
    count: int = 100
    size: int = 7
    pause: float = 0.0
    broken: int = -1

    def make(self, context: "StageContext[Squares]") -> Mapping[str, Any]:
        """Make all blocks, one after another."""
        work = self.blocks(context)
        finished = work.finished()
        for number, content in work.make([number for number in range(len(work.sizes)) if number not in finished]):
            work.write(number, content)
        return work.finish()

    def blocks(self, context: "StageContext[Squares]", writer: int = 0) -> "SquareBlocks":
        """Return the blocks."""
        return SquareBlocks(context, writer)


@dataclass(frozen=True)
class SquareBlocks:
    """Squares in blocks, each a file."""

    unit: ClassVar[str] = "numbers"
    context: StageContext[Squares]
    writer: int

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The number of values in each block."""
        spec = self.context.spec
        return [min(spec.size, spec.count - start) for start in range(0, spec.count, spec.size)]

    @cached_property
    def journal(self) -> Journal:
        """The finished blocks, a record each."""
        return Journal(self._folder, _JOURNAL, self.writer)

    @property
    def _folder(self) -> Path:
        return self.context.folder / SCRATCH

    def finished(self) -> set[int]:
        """Return the finished blocks in the journals of all writers."""
        return self.journal.finished()

    def make(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield each block's lines, one for each value."""
        spec = self.context.spec
        for number in numbers:
            time.sleep(spec.pause)
            values = range(spec.count)[number * spec.size : (number + 1) * spec.size]
            if spec.broken in values:
                raise DataError(f"{self.context.name}: {spec.broken} cannot be squared")
            yield number, "".join(f"{value * value}\n" for value in values).encode()

    def write(self, number: int, content: bytes) -> None:
        """Write a block into a file of its own."""
        with replacing(self._folder / str(number)) as file:
            file.write(content)
        if self.journal.file < 0:
            self.journal.start()
        self.journal.add(number)

    def finish(self) -> Mapping[str, Any]:
        """Join all blocks in order."""
        with replacing(self.context.folder / _SQUARES) as file:
            for number in range(len(self.sizes)):
                file.write((self._folder / str(number)).read_bytes())
        return {"numbers": self.context.spec.count}


class EngineTests(PluginTests):
    """Set `plugin` to a configured engine, or override `make`.

    Each test has the engine make a small stage, `Squares`, in a folder of the test's own.
    """

    def test_the_artifact_is_the_stages_own(self, tmp_path: Path) -> None:
        """Bytes and facts are equal; the last block is smaller."""
        for count in (100, 98, 3):
            engine, folders = self.make(tmp_path), [tmp_path / f"{name}-{count}" for name in ("own", "engine")]
            own, context = (_context(folder, count=count) for folder in folders)
            facts = own.spec.make(own)
            rule(dict(engine.make(context)) == facts, "an engine returns the facts of the stage's `finish`", facts)
            squares = [(folder / _SQUARES).read_bytes() for folder in folders]
            rule(squares[0] == squares[1], "an engine makes the bytes of the stage's own `make`")

    def test_each_block_is_computed_once(self, tmp_path: Path) -> None:
        """The journals of all writers have one record for each."""
        context = _context(tmp_path / "work")
        self.make(tmp_path).make(context)
        _check_each_once(context)

    def test_finished_blocks_stay(self, tmp_path: Path) -> None:
        """Blocks of an earlier run stay, whoever wrote them."""
        context = _context(tmp_path / "work")
        for writer, numbers in ((0, [0, 1, 14]), (3, [7])):
            work = context.spec.blocks(context, writer)
            for number in numbers:
                work.write(number, f"{number} was here\n".encode())
        self.make(tmp_path).make(context)
        kept = (context.folder / _SQUARES).read_text()
        rule(all(f"{number} was here" in kept for number in (0, 1, 7, 14)), "finished blocks stay", kept)
        _check_each_once(context)

    def test_an_error_is_the_stages_own(self, tmp_path: Path) -> None:
        """It is raised as it is; finished blocks stay, and the next run continues."""
        engine, context = self.make(tmp_path), _context(tmp_path / "work", broken=50)
        try:
            engine.make(context)
        except HardnegError as error:
            message = str(error)
            same = type(error) is DataError and message == "tried: 50 cannot be squared"
            rule(same, "an error of the stage is raised as it is", f"{type(error).__name__}: {message}")
        else:
            rule(False, "an error of the stage is raised")
        engine.make(_context(tmp_path / "work"))
        _check_each_once(context)


def _context(folder: Path, **options: Any) -> StageContext[Squares]:
    folder.mkdir(exist_ok=True)
    return StageContext("tried", Squares(**options), folder, {}, {}, Silent(), "cpu")


def _check_each_once(context: StageContext[Squares]) -> None:
    work = context.spec.blocks(context)
    numbers = sorted(number for number, *_ in work.journal.records())
    rule(numbers == list(range(len(work.sizes))), "each block is finished once", numbers)
