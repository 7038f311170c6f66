"""A corpus whose documents are encoded by segment: how many each has, counted before anything is encoded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.atomic_write import replacing
from hardneg.data.corpus import Corpus
from hardneg.data.segments import Segments, segment_ids
from hardneg.distributed import World, barrier
from hardneg.models.encoder import Encoder
from hardneg.progress import Progress

_DOCUMENTS = 1024  # counted at a time


@dataclass(frozen=True, eq=False)
class SegmentedCorpus:
    """A corpus and its cut; a row is a segment.

    first: int64 [N + 1], the row of each document's first segment, and the number of rows.
    cut_off: how many documents have text behind their last segment, which is not read.
    """

    corpus: Corpus
    cut: Segments
    first: NDArray[np.int64]
    cut_off: int

    @classmethod
    def counted(
        cls, encoder: Encoder, corpus: Corpus, cut: Segments, folder: Path, progress: Progress, here: World
    ) -> "SegmentedCorpus":
        """Counts each document's segments; several processes count a part each and meet at the end.

        What was counted stays in `folder`, in files `segments-*.npy`, for a run that goes on.
        """
        paths = [folder / f"segments-{rank}-of-{here.size}.npy" for rank in range(here.size)]
        if not paths[here.rank].exists():
            counts = _counts(encoder, corpus, cut, here.share(len(corpus)), progress)
            with replacing(paths[here.rank]) as file:
                np.save(file, counts, allow_pickle=False)
        _meet(here)
        wanted = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
        _meet(here)  # before the first process may remove them
        first = np.concatenate([[0], np.cumsum(np.minimum(wanted, cut.count), dtype=np.int64)])
        return cls(corpus, cut, first, int((wanted > cut.count).sum()))

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def doc_ids(self) -> Iterator[str]:
        """The id of each row."""
        return segment_ids(self.corpus.doc_ids, map(int, np.diff(self.first)))


def _meet(here: World) -> None:
    if here.size > 1:
        barrier()


def _counts(encoder: Encoder, corpus: Corpus, cut: Segments, share: slice, progress: Progress) -> NDArray[np.int32]:
    """int32, the segments of each document in a share; one more than are read of a document that is cut off."""
    counts = [np.empty(0, np.int32)]
    with progress.task("count segments", share.stop - share.start, "documents") as task:
        for texts in corpus.blocks(share.start, share.stop, _DOCUMENTS):
            made = encoder.segment(texts, cut)
            counts.append((made.counts + made.cut_off).astype(np.int32))
            task.advance(len(texts))
    return np.concatenate(counts)
