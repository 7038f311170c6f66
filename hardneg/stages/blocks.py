"""The work of a stage in blocks, each in a file until all are there: how it is cut, shared and put together."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hardneg.formats.runs import run_bytes
from hardneg.records import layout, types
from hardneg.runtime import distributed, progress
from hardneg.stages.base import Facts, StageContext, StageSpec
from hardneg.stages.inputs import pass_on
from hardneg.store import artifacts, atomic_write
from hardneg.store.blocks import BlockResult, BlockStore, write_behind

_LINES = "trec"
Entry = tuple[str, types.RankedList]
Ranking = Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]
"""For each of some blocks, ascending, the lists of its queries, and when they are read, what their making counted."""


def query_blocks(queries: int, size: int) -> list[int]:
    """The sizes of blocks of so many queries; the last one may be smaller."""
    return [min(size, queries - start) for start in range(0, queries, size)]


@dataclass(frozen=True)
class StageBlocks:
    """The work of a stage opened in one process, cut into independent blocks.

    sizes: the number of items of each block; the same in every process and whenever the work is resumed. title: of the
    progress. unit: the name of a block's items, such as `passages`. travels: whether other machines can make some.
    """

    context: StageContext[Any]
    sizes: Sequence[int]
    title: str
    unit: str = "queries"
    travels: bool = True

    @cached_property
    def store(self) -> BlockStore:
        """Where they are until they are put together. Raises ArtifactError where a stopped run has cut other blocks."""
        store = BlockStore(self.context.folder / artifacts.SCRATCH / "blocks")
        store.begin(self.sizes)
        return store

    def finished(self) -> set[int]:
        """Return the numbers of the blocks that are safely on disk."""
        return self.store.finished()

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        """Return these blocks, ascending, with their numbers; `task` is told of the items that are made."""
        raise NotImplementedError

    def write(self, number: int, block: BlockResult) -> None:
        """Write a block, made here or elsewhere, safely to disk, which finishes it."""
        self.store.write(number, block)

    def finish(self) -> Facts:
        """Put the blocks together, when all are finished, and return the facts for the manifest."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunBlocks(StageBlocks):
    """A run in blocks of queries: a stage gives the `ranking` of some blocks, and the `run_facts` of all."""

    def ranking(self, numbers: Sequence[int], task: progress.Task) -> Ranking:
        raise NotImplementedError

    def run_facts(self) -> Facts:
        raise NotImplementedError

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        for number, (entries, counted) in zip(numbers, self.ranking(numbers, task), strict=True):
            lines = run_bytes(entries)
            yield number, BlockResult({_LINES: lines}, counted())
            task.advance(self.sizes[number])

    def finish(self) -> Facts:
        count = len(self.sizes)
        facts = {name: value for name, value in self.store.facts(count).items() if value}
        with atomic_write.replacing(self.context.folder / layout.RUN) as file:
            file.writelines(self.store.texts(_LINES, count))
        if "run" in self.context.inputs:
            pass_on(self.context)
        return {**facts, **self.run_facts()}


def make_blocks(context: StageContext[StageSpec]) -> Facts:
    """Makes the artifact of a stage that is cut into blocks: those that are missing, then all put together.

    Several processes each call this, and share the blocks: each has a row of them, as blocks that follow each other
    share what they read.
    """
    here = distributed.world()
    if here.first:
        context.keep_only(artifacts.SCRATCH)
    distributed.barrier()
    blocks = context.spec.blocks(context, here.first)
    if here.first:
        blocks.finished()  # notes their sizes
    distributed.barrier()
    share, finished = range(len(blocks.sizes))[here.share(len(blocks.sizes))], blocks.finished()
    missing = [number for number in share if number not in finished]
    total, left = (sum(blocks.sizes[number] for number in numbers) for numbers in (share, missing))
    with context.progress.task(blocks.title, total, blocks.unit, done=total - left) as task:
        write_behind(blocks.make(missing, task) if missing else (), blocks.write)
    distributed.barrier()
    facts = blocks.finish() if here.first else {}
    distributed.barrier()
    return facts
