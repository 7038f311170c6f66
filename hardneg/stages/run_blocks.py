"""The blocks of a stage that makes a run: lists of queries, each block in a file until all are there."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hardneg.artifacts import SCRATCH
from hardneg.data.block_files import BlockFiles, BlockFolder
from hardneg.data.runs import join_runs, run_bytes
from hardneg.layout import QUERIES, RUN
from hardneg.stages.context import Facts, StageContext
from hardneg.stages.inputs import pass_on
from hardneg.stages.spec import RunSpec
from hardneg.types import RankedList

LINES = "trec"
Entry = tuple[str, RankedList]
Ranking = Callable[[Sequence[int]], Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]]
"""For each of some blocks, ascending, the lists of its queries, and when they are read, what their making counted."""


def query_blocks(queries: int, size: int) -> list[int]:
    """The sizes of blocks of so many queries; the last one may be smaller."""
    return [min(size, queries - start) for start in range(0, queries, size)]


@dataclass(frozen=True)
class RunBlocks:
    """A run in blocks of queries; told: what is to be told of the run beside what its blocks have counted."""

    unit: ClassVar[str] = "queries"
    context: StageContext[RunSpec]
    sizes: Sequence[int]
    ranking: Ranking
    told: Callable[[], Facts]
    number: int

    @cached_property
    def _files(self) -> BlockFolder:
        return BlockFolder(self.context.folder / SCRATCH, self.number)

    def finished(self) -> set[int]:
        """By the journals of all writers."""
        return self._files.finished()

    def make(self, numbers: Sequence[int]) -> Iterator[tuple[int, BlockFiles]]:
        """The lines of each block."""
        for number, (entries, counted) in zip(numbers, self.ranking(numbers), strict=True):
            lines = run_bytes(entries)
            yield number, BlockFiles({LINES: lines}, counted())

    def write(self, number: int, made: BlockFiles) -> None:
        """Into a file of its own."""
        self._files.write(number, made)

    def finish(self) -> Facts:
        """Writes the run in the order of the queries."""
        count = len(self.sizes)
        facts = {name: value for name, value in self._files.facts(count).items() if value}
        join_runs(self._files.paths(LINES, count), self.context.folder / RUN)
        self._files.release()
        self.context.keep_only(RUN, QUERIES, SCRATCH)
        if "run" in self.context.inputs:
            pass_on(self.context)
        return {**facts, **self.told()}
