"""Contract tests for engines, and a small stage to test them with."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import hardneg.plugin as hp
from hardneg.testing import PluginTests, rule

_SQUARES = "squares"


class Squares(hp.stages.StageSpec):
    """Writes the squares of 0 to `count` - 1. size, pause: numbers and seconds per block. broken: number that fails."""

    version = 1
    artifact_type = "numbers"
    in_blocks = True
    stage: Literal["squares"] = "squares"
    count: int = 100
    size: int = 7
    pause: float = 0.0
    broken: int = -1

    def make(self, context: "hp.StageContext[Squares]") -> "SquareBlocks":
        sizes = [min(self.size, self.count - start) for start in range(0, self.count, self.size)]
        return SquareBlocks(context, sizes, "squaring", "numbers")


@dataclass(frozen=True)
class SquareBlocks(hp.stage_work.StageBlocks):
    def make(self, numbers: Sequence[int], task: hp.runtime.Task) -> Iterator[tuple[int, hp.block_store.BlockResult]]:
        spec = self.context.spec
        for number in numbers:
            time.sleep(spec.pause)
            values = range(spec.count)[number * spec.size : (number + 1) * spec.size]
            if spec.broken in values:
                raise hp.errors.DataError(f"{self.context.name}: {spec.broken} cannot be squared")
            yield number, block("".join(f"{value * value}\n" for value in values))
            task.advance(len(values))

    def finish(self) -> Mapping[str, Any]:
        with hp.stores.replacing(self.context.folder / _SQUARES) as file:
            file.writelines(self.store.texts(_SQUARES, len(self.sizes)))
        return {"numbers": self.context.spec.count}


def block(lines: str) -> hp.block_store.BlockResult:
    return hp.block_store.BlockResult({_SQUARES: lines.encode()})


def context_of(folder: Path, **options: Any) -> hp.stages.StageContext[Squares]:
    folder.mkdir(exist_ok=True)
    return hp.stages.StageContext("tried", Squares(**options), folder, {}, {}, hp.runtime.Silent(), "cpu")


class EngineTests(PluginTests):
    """Tests of an engine. Set `plugin` to a configured engine; each test runs `Squares` in a new folder."""

    def test_the_artifact_is_the_stages_own(self, tmp_path: Path) -> None:
        for count in (100, 98, 3):  # the last block is smaller
            engine, folders = self.make(tmp_path), [tmp_path / f"{name}-{count}" for name in ("own", "engine")]
            own, context = (context_of(folder, count=count) for folder in folders)
            facts = hp.stages.Local().make(own)
            rule(dict(engine.make(context)) == facts, "an engine returns the facts of the stage's `finish`", facts)
            squares = [(folder / _SQUARES).read_bytes() for folder in folders]
            rule(squares[0] == squares[1], "an engine writes the same bytes as the engine `local`")

    def test_finished_blocks_stay(self, tmp_path: Path) -> None:
        context = context_of(tmp_path / "work")
        for number in (0, 1, 7, 14):
            context.spec.make(context).write(number, block(f"{number} was here\n"))
        self.make(tmp_path).make(context)
        kept = (context.folder / _SQUARES).read_text()
        rule(all(f"{number} was here" in kept for number in (0, 1, 7, 14)), "finished blocks are kept", kept)

    def test_an_error_is_the_stages_own(self, tmp_path: Path) -> None:
        """A stage's error must be raised unchanged, and the next run must use the finished blocks."""
        engine, context = self.make(tmp_path), context_of(tmp_path / "work", broken=50)
        try:
            engine.make(context)
            rule(False, "a stage's error is raised")
        except hp.errors.DataError as error:
            rule(str(error) == "tried: 50 cannot be squared", "a stage's error is raised unchanged", error)
        engine.make(context := context_of(tmp_path / "work"))
        lines = (context.folder / _SQUARES).read_text().split()
        rule(lines == [str(value * value) for value in range(100)], "the next run completes the stage")
