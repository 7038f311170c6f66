"""Encodes a corpus shard by shard: each is complete by itself, here or at a URL, and is not made again."""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.atomic_write import replace_text
from hardneg.data.remote import joined
from hardneg.data.segments import segment_ids
from hardneg.data.shard_folder import Closed, close_folder, close_shard, put_shard
from hardneg.data.shards import BEGUN_CUT, shard_name
from hardneg.data.sparse_store import SHAPE
from hardneg.distributed import barrier, from_first, world
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.protocol import StoredRows, TextEncoder
from hardneg.encoders.segmenting import SegmentedCorpus
from hardneg.encoders.stream import Layout, encoded_blocks
from hardneg.errors import ArtifactError, PartDone, UsageError
from hardneg.progress import Progress
from hardneg.wording import counted

_IDS = 65_536  # read at a time


@dataclass(frozen=True)
class Sharding:
    """How an index is made in shards.

    shards, rows: into how many, or how many rows each, at most but for whole blocks. url: where they are put; None
    leaves them in the folder. taken: the shards that are made now, counted from 0. of: what the shards are made from,
    by its digest.
    """

    shards: int | None = None
    rows: int | None = None
    url: str | None = None
    taken: slice = field(default_factory=lambda: slice(None))
    of: str = ""

    def cut(self, layout: Layout) -> list[int]:
        """The first block of each shard, and how many blocks there are."""
        blocks, total = len(layout.rows) - 1, int(layout.rows[-1])
        count = self.shards if self.shards is not None else -(-total // (self.rows or max(1, total)))
        count = max(1, min(count, blocks))
        return [blocks * number // count for number in range(count + 1)]


@dataclass(frozen=True, eq=False)
class ShardRows:
    """Those of some rows that are in one shard; documents: those that they are, or are segments of."""

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
        """The texts of the shard's documents `start` to `stop`, so many at a time."""
        first = self.documents.start
        found: Iterable[Sequence[str]] = self.whole.blocks(first + start, first + stop, size)
        return found


@dataclass(frozen=True)
class _Work:
    """What all shards of an index have in common."""

    encoder: TextEncoder
    rows: StoredRows
    layout: Layout
    folder: Path
    options: EncodeOptions
    progress: Progress
    sharding: Sharding
    cut: Sequence[int]

    def place(self, number: int) -> str:
        url, name = self.sharding.url, shard_name(number)
        return joined(url, name) if url else str(self.folder / name)

    def part(self, number: int) -> ShardRows:
        begin, end = self.cut[number], self.cut[number + 1]
        documents, rows = self.layout.documents, self.layout.rows
        return ShardRows(
            self.rows, range(int(documents[begin]), int(documents[end])), range(int(rows[begin]), int(rows[end]))
        )

    def find(self, number: int) -> Closed | None:
        """The shard, if it is complete. Raises ArtifactError where it is one of something else."""
        found, own = Closed.find(self.place(number)), self.part(number).rows
        wanted = {"of": self.sharding.of, "first": own.start, "rows": len(own)}
        if found and any(found.said.get(name) != value for name, value in wanted.items()):
            told = "is a shard of another corpus, model or cut"
            raise ArtifactError(f"{found.place}: {told}: name another place, or remove it")
        return found


def write_shards(
    encoder: TextEncoder, rows: StoredRows, folder: Path, options: EncodeOptions, progress: Progress, sharding: Sharding
) -> None:
    """Encodes the shards that are taken and not complete, and closes the folder when all are.

    Several processes each call this with the same arguments, and share the blocks of each shard. With a URL no more
    than a shard is on this disk. What a stopped run began to cut is gone on with, however it is to be cut now.

    Raises:
        ModelError: a number is not finite.
        ArtifactError: a shard that is there is one of something else, or cannot be written.
        PartDone: others are still to be made, elsewhere.
    """
    layout = Layout.of_encoder(encoder, rows)
    cut = sharding.cut(layout) if sharding.url else _begun(folder, sharding.cut(layout))
    work = _Work(encoder, rows, layout, folder, options, progress, sharding, cut)
    numbers = range(len(cut) - 1)
    for number in _taken(numbers, sharding.taken):
        if not from_first(world().first and work.find(number) is not None):
            _make(work, number)
    if world().first:
        found = [work.find(number) for number in numbers]
        missing = [number for number, shard in enumerate(found) if shard is None]
        if missing:
            told = f"{len(found) - len(missing)} of {counted(len(found), 'shard')} are at {sharding.url}"
            first = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
            raise PartDone(f"{told}; {first} are still to be made: take them, here or on another machine")
        close_folder(folder, [shard for shard in found if shard is not None])
    barrier()


def _taken(numbers: range, taken: slice) -> range:
    own = numbers[taken]
    if not own:
        raise UsageError(f"take: there are {counted(len(numbers), 'shard')}, counted from 0: none is among those taken")
    return own


def _begun(folder: Path, cut: list[int]) -> list[int]:
    """The cut that a stopped run began with, or this one."""
    path = folder / BEGUN_CUT
    if world().first and not path.exists():
        replace_text(path, json.dumps(cut))
    barrier()
    begun: list[int] = json.loads(path.read_text(encoding="utf-8"))
    return begun if begun[-1] == cut[-1] else cut


def _make(work: _Work, number: int) -> None:
    """Encodes one shard, closes it, and puts it where it is to be."""
    here, own, part = world(), work.folder / shard_name(number), work.part(number)
    if not work.encoder.is_complete(own, part):
        with work.encoder.writer(own, part, here.rank) as writer:
            finished = writer.finished_blocks()
            numbers = range(work.cut[number] + here.rank, work.cut[number + 1], here.size)
            missing = [block for block in numbers if block not in finished]
            total, left = work.layout.sizes(numbers), work.layout.sizes(missing)
            label = f"encode shard {number} of {len(work.cut) - 1}"
            with work.progress.task(label, total, "passages", total - left) as task:
                made = encoded_blocks(work.encoder, work.rows, missing, total, work.options, task.advance)
                for block, start, encoded in made:
                    writer.write_block(block, start - part.rows.start, encoded)
        barrier()
        if here.first:
            with work.encoder.writer(own, part) as writer:
                writer.write_doc_ids(part.doc_ids)
                writer.close()
    if here.first:
        _close(work, number, own)
    barrier()


def _close(work: _Work, number: int, own: Path) -> None:
    part, sharding = work.part(number), work.sharding
    size: Mapping[str, Any] = {"terms" if (own / SHAPE).exists() else "dimension": work.encoder.dimension}
    close_shard(own, len(part), {"first": part.rows.start, "of": sharding.of, **size})
    if sharding.url:
        put_shard(own, work.place(number))
        shutil.rmtree(own)
