"""Counts the rows of each document before it is encoded: its segments, or its token vectors."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.runtime.distributed import World, barrier
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import replacing

_DOCUMENTS = 1024  # counted at a time

Count = Callable[[Sequence[str]], NDArray[np.int64]]
"""The number of rows of each of some documents."""


def count_rows(
    corpus: Corpus, unit: str, count: Count, folder: Path, progress: Progress, here: World
) -> NDArray[np.int64]:
    """Counts the rows of each document, int64 [N]; several processes count a part each and meet at the end.

    The counts stay in `folder`, in files `<unit>-*.npy`, for a run that resumes.
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
    barrier()
    counted = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
    barrier()  # before the first process may remove them
    return counted.astype(np.int64)
