"""Batches ready for the encoder, the next one made while one is computed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from hardneg.data.corpus import Corpus
from hardneg.distributed import world
from hardneg.models.encoder import Encoder
from hardneg.training.examples import Draw, Examples
from hardneg.training.scoring import Columns

_Start = TypeVar("_Start")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the encoder takes it.

    queries and documents: features of this process's share; each document is there once.
    distinct: how many documents there are, all shares together.
    column: int64 [M], the document of each column of the scores.
    """

    query_ids: list[str]
    queries: dict[str, Tensor]
    documents: dict[str, Tensor]
    distinct: int
    column: Tensor
    columns: Columns


def make_batch(encoder: Encoder, corpus: Corpus, draw: Draw) -> Batch:
    """Tokenises this process's share of what was drawn."""
    rows, column = np.unique(draw.documents, return_inverse=True)
    return Batch(
        draw.query_ids,
        encoder.features(draw.texts[own_share(len(draw.texts))], "query"),
        encoder.features(corpus.contents(rows[own_share(len(rows))]), "document"),
        len(rows),
        torch.from_numpy(column.reshape(-1)),
        Columns.of(draw, corpus.content_hash),
    )


def own_share(total: int) -> slice:
    """This process's part; one thing at least, as each process must compute something to take part in the sum."""
    part = world().share(total)
    start = min(part.start, total - 1)
    return slice(start, max(part.stop, start + 1))


def batches(encoder: Encoder, corpus: Corpus, examples: Examples, starts: Iterable[int], size: int) -> Iterator[Batch]:
    """The batch at each start position, made in another thread one ahead of its use."""

    return ahead(lambda start: make_batch(encoder, corpus, examples.draw(start, size)), starts)


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
