"""The blocks of a stage that makes a run: lists of queries, each block in a file until all are there."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.records.layout import QUERIES, RUN
from hardneg.records.types import RankedList
from hardneg.store.artifacts import SCRATCH
from hardneg.verbs.shared.context import Facts, StageContext

if TYPE_CHECKING:
    from hardneg.formats.vectors.journal import BlockFiles, BlockFolder

LINES = "trec"
Entry = tuple[str, RankedList]
Ranking = Callable[[Sequence[int]], Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]]
"""For each of some blocks, ascending, the lists of its queries, and when they are read, what their making counted."""


def query_blocks(queries: int, size: int) -> list[int]:
    """The sizes of blocks of so many queries; the last one may be smaller."""
    return [min(size, queries - start) for start in range(0, queries, size)]


@dataclass(frozen=True)
class QueryBlocks:
    """Blocks of queries, each in files of its own until all are there; number: of this writer among several."""

    unit: ClassVar[str] = "queries"
    context: StageContext[Any]
    sizes: Sequence[int]
    number: int

    @cached_property
    def files(self) -> "BlockFolder":
        """Where they are until then. Raises ArtifactError where a stopped run has cut other blocks."""
        from hardneg.formats.vectors.journal import BlockFolder, check_sizes

        check_sizes(self.context.folder / SCRATCH, self.sizes)
        return BlockFolder(self.context.folder / SCRATCH, self.number)

    def finished(self) -> set[int]:
        """By the journals of all writers."""
        return self.files.finished()

    def write(self, number: int, content: "BlockFiles") -> None:
        """Into files of its own."""
        self.files.write(number, content)


@dataclass(frozen=True)
class RunBlocks(QueryBlocks):
    """A run in blocks of queries; told: what is to be told of the run beside what its blocks have counted."""

    ranking: Ranking
    run_facts: Callable[[], Facts]

    def make(self, numbers: Sequence[int]) -> "Iterator[tuple[int, BlockFiles]]":
        """The lines of each block."""
        from hardneg.formats.runs import run_bytes
        from hardneg.formats.vectors.journal import BlockFiles

        for number, (entries, counted) in zip(numbers, self.ranking(numbers), strict=True):
            lines = run_bytes(entries)
            yield number, BlockFiles({LINES: lines}, counted())

    def finish(self) -> Facts:
        """Writes the run in the order of the queries."""
        from hardneg.formats.runs import join_runs
        from hardneg.verbs.shared.inputs import pass_on

        count = len(self.sizes)
        facts = {name: value for name, value in self.files.facts(count).items() if value}
        join_runs(self.files.paths(LINES, count), self.context.folder / RUN)
        self.files.release()
        self.context.keep_only(RUN, QUERIES, SCRATCH)
        if "run" in self.context.inputs:
            pass_on(self.context)
        return {**facts, **self.run_facts()}
