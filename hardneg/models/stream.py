"""Encodes a corpus block by block into an index folder, and goes on where a killed process stopped."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.distributed import World
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.models.inference import encode_windows, prepare
from hardneg.progress import Progress

BLOCK = 4096


class TextBlocks(Protocol):
    """A corpus, read in row order."""

    def __len__(self) -> int:
        """How many documents there are."""
        ...

    def blocks(self, start: int = 0, stop: int | None = None, size: int = BLOCK) -> Iterator[list[str]]:
        """The contents of rows `start` to `stop`, `size` at a time."""
        ...


class BlockWriter(Protocol):
    """Takes vectors in any order and remembers which blocks it has."""

    def finished_blocks(self) -> set[int]:
        """Numbers of the blocks that are on disk."""
        ...

    def write_block(self, number: int, start_row: int, vectors: NDArray[np.float32]) -> None:
        """Writes float32 [n, d] from `start_row` on."""
        ...


def encode_blocks(
    encoder: Encoder,
    corpus: TextBlocks,
    writer: BlockWriter,
    options: EncodeOptions,
    progress: Progress,
    here: World = World(),  # noqa: B008
) -> None:
    """Writes the vectors of every block of `BLOCK` rows that the writer does not have; memory does not grow.

    Texts are sorted by length within a block; `options.window` plays no part. Of several processes, `here` takes
    every so-manieth block, whichever are finished already.

    Raises:
        ModelError: a vector is not finite; names the first such document's row.
    """
    finished = writer.finished_blocks()
    mine = range(here.rank, -(-len(corpus) // BLOCK), here.size)
    missing = [number for number in mine if number not in finished]
    total, left = (sum(min(BLOCK, len(corpus) - number * BLOCK) for number in part) for part in (mine, missing))
    inference = prepare(encoder, "document", options, total)
    windows = ((number * BLOCK, _texts(corpus, number)) for number in missing)
    with progress.task("encode corpus", total, "passages", total - left) as task:
        for start, vectors in encode_windows(inference, windows, task.advance):
            writer.write_block(start // BLOCK, start, vectors)


def _texts(corpus: TextBlocks, number: int) -> Sequence[str]:
    start = number * BLOCK
    return next(corpus.blocks(start, min(start + BLOCK, len(corpus)), BLOCK))
