"""The answers of rerankers without a network, saved about twice a minute, so that a stopped run resumes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.begun_blocks import BegunBlock
from hardneg.registry.protocols import Reranker

if TYPE_CHECKING:
    from hardneg.rerankers.pair_scoring import Request

_Waiting = tuple[BegunBlock, NDArray[np.int64], Sequence[float] | None]
"""The block of a request, the positions of its pairs there, and its scores where they are known."""


def kept_answers(
    reranker: Reranker, blocks: "Iterable[tuple[str, Sequence[Request]]]", folder: Path
) -> Iterator[Sequence[float]]:
    """Yields the scores of each request of all blocks, in order, from the reranker or from before a stop.

    The reranker gets the open requests as one stream, and may read ahead. A query without documents has no scores and
    is skipped.

    Args:
        reranker: scores documents.
        blocks: the name of each, which is the same after a stop, and its requests.
        folder: keeps the scores of unfinished blocks.
    """
    waiting = deque[_Waiting]()
    left = _unanswered(blocks, folder, waiting)
    for scores in reranker.rerank(left):
        yield from _known(waiting)
        if waiting:
            begun, positions, _ = waiting.popleft()
            if len(scores) == len(positions):
                begun.add(positions, np.asarray(scores, np.float64))
        yield scores
    for _ in left:  # a reranker may stop before the last
        pass
    yield from _known(waiting)


def _unanswered(
    blocks: "Iterable[tuple[str, Sequence[Request]]]", folder: Path, waiting: deque[_Waiting]
) -> "Iterator[Request]":
    """Yields the open requests, and appends all requests to `waiting`, in order."""
    for name, requests in blocks:
        edges = np.cumsum([0, *(len(documents) for _, documents in requests)])
        positions = [np.arange(*edge) for edge in pairwise(edges)]
        begun = BegunBlock(folder, name, int(edges[-1]))
        left = {int(some[0]) for some in begun.left(positions)}
        known = iter(np.asarray(() if (whole := begun.whole()) is None else whole).tolist())
        for some, request in zip(positions, requests, strict=True):
            new = len(some) > 0 and int(some[0]) in left
            waiting.append((begun, some, None if new else [next(known) for _ in some]))
            if new:
                yield request


def _known(waiting: deque[_Waiting]) -> Iterator[Sequence[float]]:
    """The scores that are known, up to the first request that is not."""
    while waiting and (scores := waiting[0][2]) is not None:
        waiting.popleft()
        yield scores
