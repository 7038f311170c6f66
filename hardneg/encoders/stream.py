"""Encodes a corpus block by block into an index folder, and goes on where a killed process stopped."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.data.corpus import Corpus
from hardneg.data.flat import FlatWriter, is_complete
from hardneg.distributed import World, barrier, world
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions, encode_windows, prepare
from hardneg.encoders.segmenting import SegmentedCorpus
from hardneg.progress import Progress

BLOCK = 4096


@dataclass(frozen=True)
class _Layout:
    """Blocks of documents; documents and rows: int64 [blocks + 1], the first of each block, and the end."""

    documents: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, corpus: Corpus | SegmentedCorpus) -> "_Layout":
        """Blocks of at most `BLOCK` rows."""
        if not isinstance(corpus, SegmentedCorpus):
            starts = np.append(np.arange(0, len(corpus), BLOCK), len(corpus))
            return cls(starts, starts)
        count = len(corpus.first) - 1
        starts = np.append(np.arange(0, count, max(1, BLOCK // corpus.cut.count)), count)
        return cls(starts, corpus.first[starts])

    def sizes(self, numbers: Sequence[int]) -> int:
        return int(np.diff(self.rows)[list(numbers)].sum())


def write_index(
    encoders: Sequence[Encoder],
    corpus: Corpus | SegmentedCorpus,
    folder: Path,
    options: EncodeOptions,
    progress: Progress,
) -> None:
    """Writes the vectors of a corpus and their ids into an index folder, unless all of them are there.

    Several processes (`hardneg.distributed`) each call this with the same arguments. Each encoder of each process, in a
    thread of its own where it has others beside it, makes every so-manieth block.

    Raises:
        ModelError: a vector is not finite; names the first such document's row.
    """
    here, shape = world(), (encoders[0].dimension, len(corpus))
    if is_complete(folder, *shape):
        return

    def part(number: int) -> None:
        place = World(here.rank * len(encoders) + number, here.size * len(encoders))
        with FlatWriter(folder, *shape, place.rank) as writer:
            encode_blocks(encoders[number], corpus, writer, options, progress, place)

    if len(encoders) == 1:
        part(0)
    else:
        with ThreadPoolExecutor(len(encoders)) as devices:
            list(devices.map(part, range(len(encoders))))
    barrier()
    if here.first:
        with FlatWriter(folder, *shape) as writer:
            writer.write_doc_ids(corpus.doc_ids)
            writer.close()


def encode_blocks(
    encoder: Encoder,
    corpus: Corpus | SegmentedCorpus,
    writer: FlatWriter,
    options: EncodeOptions,
    progress: Progress,
    here: World = World(),  # noqa: B008
) -> None:
    """Writes the vectors of every block of `BLOCK` rows that the writer does not have; memory does not grow.

    A row is a document, or a segment; a block of segments holds whole documents. Texts are sorted by length within a
    block; `options.window` plays no part. Of several processes, `here` takes every so-manieth block, whichever are
    finished already.
    """
    layout, finished = _Layout.of(corpus), writer.finished_blocks()
    mine = range(here.rank, len(layout.rows) - 1, here.size)
    missing = [number for number in mine if number not in finished]
    total, left = layout.sizes(mine), layout.sizes(missing)
    cut = corpus.cut if isinstance(corpus, SegmentedCorpus) else None
    segments = None if cut is None else lambda texts: encoder.segment(texts, cut).tokens
    inference = prepare(encoder, "document", options, total, segments)
    windows = ((int(layout.documents[number]), _texts(corpus, layout, number)) for number in missing)
    with progress.task("encode corpus", total, "segments" if segments else "passages", total - left) as task:
        found = encode_windows(inference, windows, task.advance)
        for number, (_, vectors) in zip(missing, found, strict=True):
            writer.write_block(number, int(layout.rows[number]), vectors)


def _texts(corpus: Corpus | SegmentedCorpus, layout: _Layout, number: int) -> Sequence[str]:
    start, stop = (int(document) for document in layout.documents[number : number + 2])
    whole = corpus.corpus if isinstance(corpus, SegmentedCorpus) else corpus
    return next(whole.blocks(start, stop, stop - start))
