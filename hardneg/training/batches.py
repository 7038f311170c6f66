"""Batches ready for the encoder, the next one made while one is computed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from hardneg.data.corpus import Corpus
from hardneg.data.segments import Segments
from hardneg.distributed import World, world
from hardneg.models.encoder import Encoder
from hardneg.training.examples import SampledBatch
from hardneg.training.scoring import BatchColumns

_Start = TypeVar("_Start")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the encoder takes it.

    queries and documents: features of this process's share; each document is there once.
    distinct: how many documents there are, all shares together.
    column: int64 [M], the document of each column of the scores.
    counts: int64, how many rows of `documents`, its segments, each of this process's documents has; none: one each.
    """

    query_ids: list[str]
    queries: dict[str, Tensor]
    documents: dict[str, Tensor]
    distinct: int
    column: Tensor
    columns: BatchColumns
    counts: Tensor | None = None


def make_batch(
    encoder: Encoder, corpus: Corpus, draw: SampledBatch, cut: Segments | None = None, here: World | None = None
) -> Batch:
    """Tokenises this process's share of what was drawn; documents by segment where there is a `cut`.

    here: this process's place among those that share the draw; by default all do.
    """
    rows, column = np.unique(draw.documents, return_inverse=True)
    documents, counts = _documents(encoder, corpus.contents(rows[own_share(len(rows), here)]), cut)
    return Batch(
        draw.query_ids,
        encoder.features(draw.texts[own_share(len(draw.texts), here)], "query"),
        documents,
        len(rows),
        torch.from_numpy(column.reshape(-1)),
        BatchColumns.of(draw, corpus.content_hash),
        counts,
    )


def _documents(encoder: Encoder, texts: Sequence[str], cut: Segments | None) -> tuple[dict[str, Tensor], Tensor | None]:
    if cut is None:
        return encoder.features(texts, "document"), None
    made = encoder.segment(texts, cut)
    return made.tokens.batch(np.arange(len(made.tokens.lengths))), torch.from_numpy(made.counts)


def own_share(total: int, here: World | None = None) -> slice:
    """This process's part; one thing at least, as each process must compute something to take part in the sum."""
    part = (here or world()).share(total)
    start = min(part.start, total - 1)
    return slice(start, max(part.stop, start + 1))


def ahead(make: Callable[[_Start], _Made], starts: Iterable[_Start]) -> Iterator[_Made]:
    """What `make` makes of each start, in another thread one ahead of its use."""
    with ThreadPoolExecutor(max_workers=1) as maker:
        waiting = None
        for start in starts:
            later = maker.submit(make, start)
            if waiting is not None:
                yield waiting.result()
            waiting = later
        if waiting is not None:
            yield waiting.result()
