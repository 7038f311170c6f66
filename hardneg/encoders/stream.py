"""Encodes a corpus in blocks, each a file until all are there, and writes the index that they make."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.protocol import EncodeOptions, StoredRows, TextEncoder
from hardneg.encoders.tokens import SegmentedCorpus
from hardneg.records.encoded import arrays_of, encoded_of
from hardneg.runtime import Progress, distributed
from hardneg.store.blocks import BlockResult, BlockStore, write_behind

BLOCK = 1024
"""Rows of a block, at most, which a stop may cost: a family of encoders may write fewer at a time."""


@dataclass(frozen=True)
class Layout:
    """Blocks of documents; documents and rows: int64 [blocks + 1], the first of each block, and the end."""

    documents: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of_encoder(cls, encoder: TextEncoder, rows: StoredRows) -> "Layout":
        """The blocks in which an encoder encodes the rows, on every machine the same: of so many rows at most."""
        documents = min(BLOCK, encoder.block)
        if not isinstance(rows, SegmentedCorpus):
            starts = np.append(np.arange(0, len(rows), documents), len(rows))
            return cls(starts, starts)
        count = len(rows.first) - 1
        starts = np.append(np.arange(0, count, max(1, documents // rows.cut.count)), count)
        return cls(starts, rows.first[starts])

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each block."""
        sizes: list[int] = np.diff(self.rows).tolist()
        return sizes


def write_index(
    encoders: Sequence[TextEncoder], rows: StoredRows, folder: Path, options: EncodeOptions, progress: Progress
) -> None:
    """Encodes the rows of a corpus into a folder, with their ids, unless the folder is complete.

    Several processes each call this with the same arguments. The encoders of all processes, each in a thread of its
    own, share the blocks.

    Raises ModelError: a number is not finite; names the first such document's row.
    """
    here = distributed.world()
    complete = here.first and (folder / encoders[0].files[0]).exists()
    if distributed.from_first(complete):  # one looks: it may be finished, and renamed
        return
    store, sizes = BlockStore(folder / "blocks"), Layout.of_encoder(encoders[0], rows).sizes
    if here.first:
        store.begin(sizes)
    distributed.barrier()
    finished, size = store.finished(), here.size * len(encoders)

    def part(number: int) -> None:
        share = distributed.World(here.rank * len(encoders) + number, size).share(len(sizes))
        missing = [block for block in range(len(sizes))[share] if block not in finished]
        with progress.task("encode corpus", sum(sizes[block] for block in missing), "passages") as task:
            blocks = encoded_blocks(encoders[number], rows, missing, options, task.advance)
            write_behind(blocks, store.write)

    with ThreadPoolExecutor(len(encoders)) as devices:
        list(devices.map(part, range(len(encoders))))
    distributed.barrier()
    if here.first:
        join_blocks(encoders[0], rows, store, folder)
        shutil.rmtree(store.folder)
    distributed.barrier()


def encoded_blocks(
    encoder: TextEncoder,
    rows: StoredRows,
    numbers: Sequence[int],
    options: EncodeOptions,
    advance: Callable[[int], None],
) -> Iterator[tuple[int, BlockResult]]:
    """Yields each of these blocks with its number; few are in memory. Texts are sorted by length within a block."""
    layout, cut = Layout.of_encoder(encoder, rows), rows.cut if isinstance(rows, SegmentedCorpus) else None
    spans = (layout.documents[number : number + 2].tolist() for number in numbers)
    texts = ((start, _BlockTexts(rows, start, stop)) for start, stop in spans)
    windows = encoder.encode_windows(texts, "document", options, advance, cut)
    for number, (_, encoded) in zip(numbers, windows, strict=True):
        yield number, BlockResult(arrays_of(encoded))


def join_blocks(encoder: TextEncoder, rows: StoredRows, store: BlockStore, folder: Path) -> None:
    """Writes the index of all blocks, which are finished, in `folder`."""
    with encoder.writer(folder, rows) as writer:
        for number in range(len(Layout.of_encoder(encoder, rows).sizes)):
            writer.write(encoded_of(store.read(number)))
        writer.write_doc_ids(rows.doc_ids)
        writer.close()


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
