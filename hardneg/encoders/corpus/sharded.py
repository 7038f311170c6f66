"""Encodes a corpus shard by shard: each is complete by itself, here or at a URL, and is not made again."""

from pathlib import Path

from hardneg.encoders.corpus.sharding import Sharding, ShardWork
from hardneg.encoders.corpus.stream import encoded_blocks, written
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.protocol import StoredRows, TextEncoder
from hardneg.formats.vectors.begun_blocks import drop
from hardneg.runtime.distributed import barrier, from_first, world
from hardneg.runtime.progress import Progress


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
    work = ShardWork.begun(encoder, rows, folder, sharding)
    for number in work.taken:
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
