"""Encodes an index in shards: each is cut, encoded and closed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.corpus.stream import Layout, close_index, encoded_blocks, written
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.protocol import StoredRows, TextEncoder
from hardneg.encoders.tokens.segmenting import SegmentedCorpus
from hardneg.formats.segments import segment_ids
from hardneg.formats.vectors.begun_blocks import drop
from hardneg.formats.vectors.shard_folder import Closed, close_folder, close_shard
from hardneg.formats.vectors.shards import BEGUN_CUT, even_cut, shard_name
from hardneg.formats.vectors.sparse_store import SHAPE
from hardneg.runtime.distributed import barrier, from_first, world
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

    def find(self, number: int) -> Closed | None:
        """The shard, if it is complete."""
        return Closed.find(self.own(number))

    def close(self, number: int) -> None:
        """Completes a shard with all of its blocks; called by one process."""
        own, part = self.own(number), self.part(number)
        if not self.encoder.is_complete(own, part):
            close_index(self.encoder, part, own)
        for path in own.iterdir():
            if path.is_file() and path.name not in self.encoder.files:  # what a killed process left
                path.unlink()
        size: Mapping[str, Any] = {"terms" if (own / SHAPE).exists() else "dimension": self.encoder.dimension}
        close_shard(own, len(part), {"first": part.rows.start, **size})

    def close_all(self) -> None:
        """Closes the folder, whose shards are complete."""
        shards = [self.find(number) for number in self.numbers]
        close_folder(self.folder, [shard for shard in shards if shard is not None])


def _begun(folder: Path, cut: list[int]) -> list[int]:
    """The cut of a stopped run, or this one."""
    path = folder / BEGUN_CUT
    if world().first and not path.exists():
        replace_text(path, json.dumps(cut))
    barrier()
    begun: list[int] = json.loads(path.read_text(encoding="utf-8"))
    return begun if begun[-1] == cut[-1] else cut


def write_shards(
    encoder: TextEncoder, rows: StoredRows, folder: Path, options: EncodeOptions, progress: Progress, sharding: Sharding
) -> None:
    """Encodes the shards that are not complete, and closes the folder.

    Several processes each call this with the same arguments, and share the blocks of each shard. A run resumes
    the cut of a stopped one, whatever cut is requested now.

    Raises:
        ModelError: a number is not finite.
    """
    work = ShardWork.begun(encoder, rows, folder, sharding)
    for number in work.numbers:
        if not from_first(world().first and work.find(number) is not None):
            _make(work, number, options, progress)
            barrier()
            if world().first:
                work.close(number)
            barrier()
    if world().first:
        work.close_all()
    barrier()


def _make(work: ShardWork, number: int, options: EncodeOptions, progress: Progress) -> None:
    """Encodes what is missing of one shard: this process's part of it."""
    here, own, part = world(), work.own(number), work.part(number)
    if work.encoder.is_complete(own, part):
        return
    with work.encoder.writer(own, part, here.rank) as writer:
        finished = writer.finished_blocks()
        numbers = work.blocks(number)[here.rank :: here.size]
        missing = [block for block in numbers if block not in finished]
        total, left = work.layout.sizes(numbers), work.layout.sizes(missing)
        label = f"encode shard {number} of {len(work.cut) - 1}"
        with progress.task(label, total, "passages", total - left) as task:
            blocks = encoded_blocks(work.encoder, work.rows, missing, total, options, task.advance)
            own_rows = ((block, start - part.rows.start, encoded) for block, start, encoded in blocks)
            for block in written(own_rows, writer.write_block):
                drop(options.begun, work.layout.name(block))
