"""Encoding a corpus into an index: counting the rows (documents or segments), and encoding them in resumable blocks."""

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
from hardneg.formats import segments
from hardneg.formats.corpus import Corpus
from hardneg.records.encoded import arrays_of, encoded_of
from hardneg.runtime import Progress, distributed
from hardneg.store import blocks, replacing

BLOCK = 1024
"""Maximum number of rows per block, the unit of work lost when a run stops. Encoder families may use smaller blocks."""
_DOCUMENTS = 1024  # counted at a time


def count_rows(
    corpus: Corpus, unit: str, count: Any, folder: Path, progress: Progress, here: distributed.World
) -> NDArray[np.int64]:
    """Return the number of rows of each document, int64 [N]; each process counts a share and waits for the others.

    unit: plural name of the rows. count: function that returns the number of rows of each text, int64 [n]. Counts are
    saved in `folder` for a resumed run.
    """
    paths = [folder / f"{unit}-{rank}-of-{here.size}.npy" for rank in range(here.size)]
    if not paths[here.rank].exists():
        share, counts = here.share(len(corpus)), [np.empty(0, np.int32)]
        with progress.task(f"count {unit}", share.stop - share.start, "documents") as task:
            for texts in corpus.blocks(share.start, share.stop, _DOCUMENTS):
                counts.append(count(texts).astype(np.int32))
                task.advance(len(texts))
        with replacing(paths[here.rank]) as file:
            np.save(file, np.concatenate(counts), allow_pickle=False)
    distributed.barrier()
    counted = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
    distributed.barrier()  # before the first process may remove them
    return counted.astype(np.int64)


@dataclass(frozen=True, eq=False)
class SegmentedCorpus:
    """A corpus with one row per segment of each document.

    cut: how documents are split. first: int64 [N + 1], each document's first row, then the total number of rows.
    cut_off: the number of documents with text beyond the last segment; such text is not encoded.
    """

    corpus: Corpus
    cut: segments.Segments
    first: NDArray[np.int64]
    cut_off: int

    @classmethod
    def counted(
        cls,
        encoder: Any,
        corpus: Corpus,
        cut: segments.Segments,
        folder: Path,
        progress: Progress,
        here: distributed.World,
    ) -> "SegmentedCorpus":
        """Create a segmented corpus by counting each document's segments with `count_rows`. encoder: an `Encoder`."""

        def count(texts: Sequence[str]) -> NDArray[np.int64]:  # one more for a document that is cut off
            found = encoder.segment(texts, cut)
            counts: NDArray[np.int64] = found.counts + found.cut_off
            return counts

        wanted = count_rows(corpus, "segments", count, folder, progress, here)
        first = np.concatenate([[0], np.cumsum(np.minimum(wanted, cut.count))])
        return cls(corpus, cut, first, int((wanted > cut.count).sum()))

    def __len__(self) -> int:
        return int(self.first[-1])

    def blocks(self, start: int, stop: int, size: int) -> Iterator[Sequence[str]]:
        """Return the texts of documents `start` to `stop` (exclusive), `size` at a time."""
        return self.corpus.blocks(start, stop, size)

    @property
    def doc_ids(self) -> Iterator[str]:
        """The segment id of each row."""
        return segments.segment_ids(self.corpus.doc_ids, map(int, np.diff(self.first)))


@dataclass(frozen=True)
class Layout:
    """The division of a corpus into blocks.

    documents, rows: int64 [blocks + 1], the first document and the first row of each block, followed by the total.
    """

    documents: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of_encoder(cls, encoder: TextEncoder, rows: StoredRows) -> "Layout":
        """Return the blocks in which an encoder encodes the rows; they are the same on every machine."""
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
    """Encode the rows of a corpus and write an index with their ids to a folder, unless the folder is complete.

    Every process calls this with the same arguments. The blocks are divided among the encoders of all
    processes, and each encoder runs in its own thread.

    Raises ModelError, with the row of the first affected document, if a vector is not finite.
    """
    here = distributed.world()
    complete = here.rank == 0 and (folder / encoders[0].files[0]).exists()
    if distributed.from_first(complete):  # one process looks, as it may finish and rename the folder
        return
    store, sizes = blocks.BlockStore(folder / "blocks"), Layout.of_encoder(encoders[0], rows).sizes
    if here.rank == 0:
        store.begin(sizes)
    distributed.barrier()
    finished, size = store.finished(), here.size * len(encoders)

    def part(number: int) -> None:
        share = distributed.World(here.rank * len(encoders) + number, size).share(len(sizes))
        missing = [block for block in range(len(sizes))[share] if block not in finished]
        with progress.task("encode corpus", sum(sizes[block] for block in missing), "passages") as task:
            blocks.write_behind(encoded_blocks(encoders[number], rows, missing, options, task.advance), store.write)

    with ThreadPoolExecutor(len(encoders)) as devices:
        list(devices.map(part, range(len(encoders))))
    distributed.barrier()
    if here.rank == 0:
        join_blocks(encoders[0], rows, store, folder)
        shutil.rmtree(store.folder)
    distributed.barrier()


def encoded_blocks(
    encoder: TextEncoder,
    rows: StoredRows,
    numbers: Sequence[int],
    options: EncodeOptions,
    advance: Callable[[int], None],
) -> Iterator[tuple[int, blocks.BlockResult]]:
    """Encode the given blocks and yield the number and the encoded rows of each, in the given order."""
    layout, cut = Layout.of_encoder(encoder, rows), rows.cut if isinstance(rows, SegmentedCorpus) else None
    spans = (layout.documents[number : number + 2].tolist() for number in numbers)
    texts = ((start, _BlockTexts(rows, start, stop)) for start, stop in spans)
    windows = encoder.encode_windows(texts, "document", options, advance, cut)
    for number, (_, encoded) in zip(numbers, windows, strict=True):
        yield number, blocks.BlockResult(arrays_of(encoded))


def join_blocks(encoder: TextEncoder, rows: StoredRows, store: blocks.BlockStore, folder: Path) -> None:
    """Join the finished blocks of all rows into an index in a folder."""
    with encoder.writer(folder, rows) as writer:
        for number in range(len(Layout.of_encoder(encoder, rows).sizes)):
            writer.write(encoded_of(store.read(number)))
        writer.write_doc_ids(rows.doc_ids)
        writer.close()


@dataclass(frozen=True)
class _BlockTexts(Sequence[str]):
    """The texts of documents `start` to `stop`, read on first use in the thread that tokenises them."""

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
