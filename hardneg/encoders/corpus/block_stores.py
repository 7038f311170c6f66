"""Where the encoded blocks of a corpus are put, one at a time and by any process: one folder, or shards."""

import fcntl
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from hardneg.encoders.corpus.sharding import ShardWork
from hardneg.encoders.corpus.stream import block_sizes, close_index
from hardneg.encoders.protocol import StoredRows, StoreWriter, TextEncoder
from hardneg.formats.vectors.shards import SHARD, shard_name


class BlockStore(Protocol):
    """What blocks are put into; several processes may hold one store, each with a number of its own."""

    @property
    def numbers(self) -> range:
        """The numbers of the blocks to encode."""

    def finished(self) -> set[int]:
        """The numbers of the blocks that are safely stored."""

    def write(self, number: int, start: int, encoded: Any) -> None:
        """Stores the rows from `start` on, counted in the whole corpus, and marks the block as finished."""

    def close(self) -> None:
        """Completes the index once all blocks are stored; called by one process."""


@dataclass(frozen=True)
class OneFolder:
    """An index in one folder."""

    encoder: TextEncoder
    rows: StoredRows
    folder: Path
    writer: int

    @cached_property
    def numbers(self) -> range:
        """All of them."""
        return range(len(block_sizes(self.encoder, self.rows)))

    @cached_property
    def _writer(self) -> StoreWriter:
        return self.encoder.writer(self.folder, self.rows, self.writer)

    def finished(self) -> set[int]:
        """By the journals; all of them, where the index is complete."""
        complete = self.encoder.is_complete(self.folder, self.rows)
        return set(self.numbers) if complete else self._writer.finished_blocks()

    def write(self, number: int, start: int, encoded: Any) -> None:
        """Into the index."""
        self._writer.write_block(number, start, encoded)

    def close(self) -> None:
        """Writes the ids."""
        if not self.encoder.is_complete(self.folder, self.rows):
            close_index(self.encoder, self.rows, self.folder)


@dataclass(frozen=True)
class ShardFolders:
    """An index in shards: the process that writes the last block of a shard closes it.

    The lock of a shard is shared by its writers, and exclusive for the process that closes it. So a shard is closed
    once, when no process has its files open.
    """

    work: ShardWork
    writer: int

    @property
    def numbers(self) -> range:
        """All of them."""
        return range(self.work.cut[-1])

    def finished(self) -> set[int]:
        """The blocks of complete shards, and those in the journals."""
        numbers = set[int]()
        for shard in self.work.numbers:
            if self.work.find(shard) is not None:
                numbers.update(self.work.blocks(shard))
            elif self.work.own(shard).exists():
                with self._locked(shard, fcntl.LOCK_EX):
                    closed = self.work.find(shard) is not None  # since it was looked for
                    numbers.update(self.work.blocks(shard) if closed else self._written(shard))
        return numbers

    def _written(self, shard: int) -> set[int]:
        """The finished blocks of a shard that is not closed; its lock is held alone."""
        own, part = self.work.own(shard), self.work.part(shard)
        if self.work.encoder.is_complete(own, part):
            return set(self.work.blocks(shard))
        with self.work.encoder.writer(own, part, self.writer) as writer:
            return writer.finished_blocks()

    def write(self, number: int, start: int, encoded: Any) -> None:
        """Into its shard."""
        shard = bisect_right(self.work.cut, number) - 1
        own, part = self.work.own(shard), self.work.part(shard)
        with self._locked(shard, fcntl.LOCK_SH), self.work.encoder.writer(own, part, self.writer) as writer:
            writer.write_block(number, start - part.rows.start, encoded)
        with self._locked(shard, fcntl.LOCK_EX):
            if not (own / SHARD).exists() and self._written(shard).issuperset(self.work.blocks(shard)):
                self.work.close(shard)

    def close(self) -> None:
        """Closes the shards that a killed process left at their last step, and lists them all."""
        for shard in self.work.numbers:
            if self.work.find(shard) is None:
                self.work.close(shard)
        self.work.close_all()

    @contextmanager
    def _locked(self, shard: int, mode: int) -> Iterator[None]:
        handle = os.open(self.work.folder / f"{shard_name(shard)}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, mode)
            yield
        finally:
            os.close(handle)
