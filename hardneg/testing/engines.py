"""The contract of engines (`hardneg.verbs.shared.context.Engine`) as tests."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardneg.records.errors import DataError, HardnegError
from hardneg.runtime.progress import Silent, Task
from hardneg.store.atomic_write import replacing
from hardneg.store.blocks import BlockResult
from hardneg.testing.plugin_contract import PluginTests, rule
from hardneg.verbs.shared.blocks import StageBlocks, query_blocks
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.stage_spec import StageSpec

_SQUARES = "squares"


class Squares(StageSpec):
    """A stage to test engines with: writes the squares of 0 to `count`, some in each block.

    pause: seconds that a block takes. broken: a number that raises an error.
    """

    version = 1
    artifact_type = "numbers"
    stage: Literal["squares"] = "squares"
    count: int = 100
    size: int = 7
    pause: float = 0.0
    broken: int = -1

    def blocks(self, context: "StageContext[Squares]", first: bool = True) -> "SquareBlocks":
        """Return the blocks."""
        return SquareBlocks(context, query_blocks(self.count, self.size), "squaring", "numbers")


@dataclass(frozen=True)
class SquareBlocks(StageBlocks):
    """Squares in blocks."""

    def make(self, numbers: Sequence[int], task: Task) -> Iterator[tuple[int, BlockResult]]:
        """Yield each block's lines, one for each value."""
        spec = self.context.spec
        for number in numbers:
            time.sleep(spec.pause)
            values = range(spec.count)[number * spec.size : (number + 1) * spec.size]
            if spec.broken in values:
                raise DataError(f"{self.context.name}: {spec.broken} cannot be squared")
            yield number, _block("".join(f"{value * value}\n" for value in values))
            task.advance(len(values))

    def finish(self) -> Mapping[str, Any]:
        """Join all blocks in order."""
        with replacing(self.context.folder / _SQUARES) as file:
            file.writelines(self.store.texts(_SQUARES, len(self.sizes)))
        return {"numbers": self.context.spec.count}


def _block(lines: str) -> BlockResult:
    return BlockResult({_SQUARES: lines.encode()})


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

    def test_finished_blocks_stay(self, tmp_path: Path) -> None:
        """Blocks of an earlier run stay, whoever wrote them."""
        context = _context(tmp_path / "work")
        for number in (0, 1, 7, 14):
            context.spec.blocks(context).write(number, _block(f"{number} was here\n"))
        self.make(tmp_path).make(context)
        kept = (context.folder / _SQUARES).read_text()
        rule(all(f"{number} was here" in kept for number in (0, 1, 7, 14)), "finished blocks stay", kept)

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
        engine.make(context := _context(tmp_path / "work"))
        lines = (context.folder / _SQUARES).read_text().split()
        rule(lines == [str(value * value) for value in range(100)], "the next run makes the rest")


def _context(folder: Path, **options: Any) -> StageContext[Squares]:
    folder.mkdir(exist_ok=True)
    return StageContext("tried", Squares(**options), folder, {}, {}, Silent(), "cpu")
