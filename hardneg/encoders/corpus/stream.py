"""Encodes a corpus block by block into an index folder, and resumes where a killed process stopped."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.protocol import BlockStore, EncodeOptions, StoredRows, TextEncoder, TextWindows
from hardneg.encoders.tokens.kept_ids import kept_ids
from hardneg.encoders.tokens.segmenting import SegmentedCorpus
from hardneg.formats.vectors.begun_blocks import drop
from hardneg.records.types import Encoded
from hardneg.runtime.distributed import World, barrier, from_first, world
from hardneg.runtime.progress import Progress

BLOCK = 4096
"""Rows of a block, at most: a family of encoders may write fewer at a time."""


@dataclass(frozen=True)
class Layout:
    """Blocks of documents; documents and rows: int64 [blocks + 1], the first of each block, and the end."""

    documents: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, rows: StoredRows, documents: int) -> "Layout":
        """Blocks of `documents` documents, or of segments with at most as many rows."""
        if not isinstance(rows, SegmentedCorpus):
            starts = np.append(np.arange(0, len(rows), documents), len(rows))
            return cls(starts, starts)
        count = len(rows.first) - 1
        starts = np.append(np.arange(0, count, max(1, documents // rows.cut.count)), count)
        return cls(starts, rows.first[starts])

    @classmethod
    def of_encoder(cls, encoder: TextEncoder, rows: StoredRows) -> "Layout":
        """The blocks in which an encoder encodes the rows, on every machine the same."""
        return cls.of(rows, min(BLOCK, encoder.block))

    def name(self, number: int) -> str:
        """The name of an unfinished block: the number of its first document."""
        return str(int(self.documents[number]))

    def sizes(self, numbers: Sequence[int]) -> int:
        """The number of rows of these blocks."""
        return int(np.diff(self.rows)[list(numbers)].sum())


def write_index(
    encoders: Sequence[TextEncoder], rows: StoredRows, folder: Path, options: EncodeOptions, progress: Progress
) -> None:
    """Encodes the rows of a corpus into a folder, with their ids, unless the folder is complete.

    Several processes each call this with the same arguments. The encoders of all processes, each in a thread of its
    own, take the blocks in turn.

    Raises:
        ModelError: a number is not finite; names the first such document's row.
    """
    here = world()
    if from_first(here.first and encoders[0].is_complete(folder, rows)):  # one looks: it may be finished, and renamed
        return

    def part(number: int) -> None:
        share = World(here.rank * len(encoders) + number, here.size * len(encoders))
        with encoders[number].writer(folder, rows, share.rank) as writer:
            encode_blocks(encoders[number], rows, writer, options, progress, share)

    if len(encoders) == 1:
        part(0)
    else:
        with ThreadPoolExecutor(len(encoders)) as devices:
            list(devices.map(part, range(len(encoders))))
    barrier()
    if here.first:
        close_index(encoders[0], rows, folder)


def close_index(encoder: TextEncoder, rows: StoredRows, folder: Path) -> None:
    """Writes the ids of the rows once all blocks are there, which completes the folder."""
    with encoder.writer(folder, rows) as writer:
        writer.write_doc_ids(rows.doc_ids)
        writer.close()


def encode_blocks(
    encoder: TextEncoder,
    rows: StoredRows,
    writer: BlockStore,
    options: EncodeOptions,
    progress: Progress,
    here: World = World(),  # noqa: B008
) -> None:
    """Encodes and writes every block that the writer lacks; memory does not grow.

    A row is a document or a segment; a block of segments holds whole documents. Texts are sorted by length within a
    block; `options.window` is not used. Several processes take the blocks in turn, finished or not.
    """
    layout, finished = Layout.of_encoder(encoder, rows), writer.finished_blocks()
    mine = range(here.rank, len(layout.rows) - 1, here.size)
    missing = [number for number in mine if number not in finished]
    total, left = layout.sizes(mine), layout.sizes(missing)
    unit = "segments" if isinstance(rows, SegmentedCorpus) else "passages"
    with progress.task("encode corpus", total, unit, total - left) as task:
        blocks = encoded_blocks(encoder, rows, missing, total, options, task.advance)
        for number in written(blocks, writer.write_block):
            drop(options.begun, layout.name(number))


def written(blocks: Iterable[tuple[int, int, Encoded]], write: Callable[[int, int, Encoded], None]) -> Iterator[int]:
    """Yields the number of each written block; a thread writes while the next block is encoded."""
    with ThreadPoolExecutor(1) as disk:

        def put(block: tuple[int, int, Encoded]) -> int:
            write(*block)
            return block[0]

        under_way: Future[int] | None = None
        for block in blocks:
            if under_way is not None:
                yield under_way.result()
            under_way = disk.submit(put, block)
        if under_way is not None:
            yield under_way.result()


def encoded_blocks(
    encoder: TextEncoder,
    rows: StoredRows,
    numbers: Sequence[int],
    count: int,
    options: EncodeOptions,
    advance: Callable[[int], None],
) -> Iterator[tuple[int, int, Encoded]]:
    """Yields the number, the first row and the encoded texts of each of these blocks; few are in memory.

    count: about how many rows this process encodes in all.
    """
    layout, cut = Layout.of_encoder(encoder, rows), rows.cut if isinstance(rows, SegmentedCorpus) else None
    spans = (layout.documents[number : number + 2].tolist() for number in numbers)
    texts = ((start, _BlockTexts(rows, start, stop)) for start, stop in spans)
    with kept_ids(encoder, rows, layout.documents[:-1]) if options.keep_tokens else nullcontext() as kept:
        windows = encoder.encode_windows(TextWindows(texts, count, cut, kept), "document", options, advance)
        for number, (_, encoded) in zip(numbers, windows, strict=True):
            yield number, int(layout.rows[number]), encoded


def block_sizes(encoder: TextEncoder, rows: StoredRows) -> list[int]:
    """The number of rows of each block."""
    sizes: list[int] = np.diff(Layout.of_encoder(encoder, rows).rows).tolist()
    return sizes


@dataclass(frozen=True)
class _BlockTexts(Sequence[str]):
    """The texts of documents `start` to `stop`, read on first use, in the thread that tokenises them."""

    rows: StoredRows
    start: int
    stop: int

    @cached_property
    def _read(self) -> Sequence[str]:
        return next(iter(self.rows.blocks(self.start, self.stop, len(self))))

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, index: Any) -> Any:
        return self._read[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)
