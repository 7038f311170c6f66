"""Where the encoded blocks of a corpus are put, one at a time and by any process: one folder, or shards."""

import fcntl
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.corpus.stream import Layout, block_sizes, close_index, encode_blocks
from hardneg.encoders.protocol import EncodeOptions, StoredRows, StoreWriter, TextEncoder
from hardneg.encoders.tokens.segmenting import SegmentedCorpus
from hardneg.formats.segments import segment_ids
from hardneg.formats.vectors.shard_folder import Closed, close_folder, close_shard
from hardneg.formats.vectors.shards import BEGUN_CUT, SHARD, even_cut, shard_name
from hardneg.records.layout import WEIGHTS
from hardneg.runtime.distributed import barrier, world
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import replace_text

_IDS = 65_536  # read at a time


@dataclass(frozen=True)
class Sharding:
    """How an index is divided: into how many shards, or how many rows each, at most but for whole blocks."""

    shards: int | None = None
    rows: int | None = None

    def cut(self, layout: Layout) -> list[int]:
        """The first block of each shard, and how many blocks there are."""
        return even_cut(len(layout.rows) - 1, int(layout.rows[-1]), self.shards, self.rows)


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of one shard; documents: the documents that they are, or are segments of."""

    whole: Any
    documents: range
    rows: range

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """int64 [n + 1], where the vectors of each document begin in the shard; of documents with a vector a token."""
        own: NDArray[np.int64] = np.asarray(self.whole.offsets[self.documents.start : self.documents.stop + 1])
        return np.asarray(own - own[0], np.int64)

    @property
    def doc_ids(self) -> Iterable[str]:
        """The id of each row."""
        segmented = isinstance(self.whole, SegmentedCorpus)
        ids = self.whole.corpus.doc_ids if segmented else self.whole.doc_ids
        starts = range(self.documents.start, self.documents.stop, _IDS)
        own = chain.from_iterable(ids[start : min(start + _IDS, self.documents.stop)] for start in starts)
        if not segmented:
            return own
        counts = np.diff(self.whole.first[self.documents.start : self.documents.stop + 1])
        return segment_ids(own, map(int, counts))

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """The texts of the shard's documents `start` to `stop`, `size` at a time."""
        first = self.documents.start
        texts: Iterable[Sequence[str]] = self.whole.blocks(first + start, first + stop, size)
        return texts


@dataclass(frozen=True)
class ShardWork:
    """The shards of an unfinished index in a folder; cut: the first block of each, and the number of blocks."""

    encoder: TextEncoder
    rows: StoredRows
    layout: Layout
    folder: Path
    cut: Sequence[int]

    @classmethod
    def begun(cls, encoder: TextEncoder, rows: StoredRows, folder: Path, sharding: Sharding) -> "ShardWork":
        """The work in this folder, cut as requested or as a stopped run has cut it."""
        layout = Layout.of_encoder(encoder, rows)
        return cls(encoder, rows, layout, folder, _begun(folder, sharding.cut(layout)))

    @property
    def numbers(self) -> range:
        """The numbers of the shards."""
        return range(len(self.cut) - 1)

    def blocks(self, number: int) -> range:
        """The numbers of a shard's blocks."""
        return range(self.cut[number], self.cut[number + 1])

    def own(self, number: int) -> Path:
        """The folder of a shard."""
        return self.folder / shard_name(number)

    def part(self, number: int) -> ShardRows:
        """A shard's rows."""
        begin, end = self.cut[number], self.cut[number + 1]
        documents, rows = self.layout.documents, self.layout.rows
        return ShardRows(
            self.rows, range(int(documents[begin]), int(documents[end])), range(int(rows[begin]), int(rows[end]))
        )

    def close(self, number: int) -> None:
        """Completes a shard with all of its blocks; called by one process."""
        own, part = self.own(number), self.part(number)
        if not self.encoder.is_complete(own, part):
            close_index(self.encoder, part, own)
        for path in own.iterdir():
            if path.is_file() and path.name not in self.encoder.files:  # what a killed process left
                path.unlink()
        size: Mapping[str, Any] = {"terms" if (own / WEIGHTS).exists() else "dimension": self.encoder.dimension}
        close_shard(own, len(part), {"first": part.rows.start, **size})

    def close_all(self) -> None:
        """Closes the folder, whose shards are complete."""
        shards = [Closed.find(self.own(number)) for number in self.numbers]
        close_folder(self.folder, [shard for shard in shards if shard is not None])


def _begun(folder: Path, cut: list[int]) -> list[int]:
    """The cut of a stopped run, or this one."""
    path = folder / BEGUN_CUT
    if world().first and not path.exists():
        replace_text(path, json.dumps(cut))
    barrier()
    begun: list[int] = json.loads(path.read_text(encoding="utf-8"))
    return begun if begun[-1] == cut[-1] else cut


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

    def finished_blocks(self) -> set[int]:
        """By the journals; all of them, where the index is complete."""
        complete = self.encoder.is_complete(self.folder, self.rows)
        return set(self.numbers) if complete else self._writer.finished_blocks()

    def write_block(self, number: int, start: int, encoded: Any, /) -> None:
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

    def finished_blocks(self) -> set[int]:
        """The blocks of complete shards, and those in the journals."""
        numbers = set[int]()
        for shard in self.work.numbers:
            if Closed.find(self.work.own(shard)) is not None:
                numbers.update(self.work.blocks(shard))
            elif self.work.own(shard).exists():
                with self._locked(shard, fcntl.LOCK_EX):
                    closed = Closed.find(self.work.own(shard)) is not None  # since it was looked for
                    numbers.update(self.work.blocks(shard) if closed else self._written(shard))
        return numbers

    def _written(self, shard: int) -> set[int]:
        """The finished blocks of a shard that is not closed; its lock is held alone."""
        own, part = self.work.own(shard), self.work.part(shard)
        if self.work.encoder.is_complete(own, part):
            return set(self.work.blocks(shard))
        with self.work.encoder.writer(own, part, self.writer) as writer:
            return writer.finished_blocks()

    def write_block(self, number: int, start: int, encoded: Any, /) -> None:
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
            if Closed.find(self.work.own(shard)) is None:
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


def write_shards(
    encoder: TextEncoder, rows: StoredRows, folder: Path, options: EncodeOptions, progress: Progress, sharding: Sharding
) -> None:
    """Encodes the blocks of all shards that are not there, and closes the folder.

    Several processes each call this with the same arguments, and share the blocks. A run resumes the cut of a stopped
    one, whatever cut is requested now.

    Raises:
        ModelError: a number is not finite.
    """
    here = world()
    store = ShardFolders(ShardWork.begun(encoder, rows, folder, sharding), here.rank)
    encode_blocks(encoder, rows, store, options, progress, here)
    barrier()
    if here.first:
        store.close()
    barrier()
