"""Passes of about equal work over texts or pairs, made smaller where a GPU's memory does not hold one."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.begun_blocks import BegunBlock
from hardneg.records.encoded import Encoded
from hardneg.records.errors import ModelError

Cut = Callable[[NDArray[np.int64], int], Iterable[NDArray[np.int64]]]
"""Rows of texts of these lengths, the longest first, in passes of at most so many tokens, or of one row."""

_Item = TypeVar("_Item")
_Features = TypeVar("_Features")
_Output = TypeVar("_Output")
_log = logging.getLogger(__name__)


@dataclass
class Budget:
    """Tokens a pass, padding included, of all windows that a model is given: fewer, once one was too many."""

    tokens: int


def in_passes(
    lengths: NDArray[np.int64],
    budget: Budget,
    cut: Cut,
    put: Callable[[NDArray[np.int64]], _Features],
    run: Callable[[_Features], _Output],
    begun: BegunBlock,
) -> Iterator[tuple[NDArray[np.int64], _Output]]:
    """Of each pass its rows, int64 [b], and what is made of them; the next one is put on its device meanwhile.

    A pass that memory does not hold is cut in two, and so are all behind it.

    Args:
        lengths: int64 [n], tokens of each text.
        budget: of a pass; what is found too large here is not tried again.
        cut: makes passes.
        put: makes the features of some rows, on the device.
        run: makes of features what is wanted.
        begun: what is made of the texts already; of passes that are there as a whole nothing is given.

    Raises:
        ModelError: memory does not hold one text alone.
    """
    left = np.arange(len(lengths))
    while len(left):
        passes, done = begun.left(left[rows] for rows in cut(lengths[left], budget.tokens)), 0
        try:
            for rows, features in one_ahead((rows, put(rows)) for rows in passes):
                yield rows, run(features)
                done += 1
        except torch.OutOfMemoryError as error:
            if len(passes[done]) == 1:
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"a text of {lengths[passes[done][0]]} tokens alone does not fit the device's memory: let texts be "
                    f"cut shorter, or free the device of other programs ({reason:.200})"
                ) from None
        left = np.concatenate([left[:0], *passes[done:]])
        if len(left):  # what the pass held is free only here, where its exception is gone
            failed = lengths[passes[done]]
            tried = min(budget.tokens, len(failed) * int(failed.max()))
            budget.tokens = max(1, tried // 2)
            torch.cuda.empty_cache()
            _log.warning("the device's memory does not hold a pass of %d tokens: %d from now on", tried, budget.tokens)


def gathered_in_parts(
    passes: Iterator[tuple[NDArray[np.int64], _Output]],
    begun: BegunBlock,
    gathered: Callable[[Iterable[tuple[NDArray[np.int64], _Output]], int], Encoded],
    advance: Callable[[int], None],
) -> Encoded:
    """What all texts become, in their order; whenever that is due, what is made of them is kept.

    Args:
        passes: as `in_passes` gives them.
        begun: what is made already; takes up the rest.
        gathered: what texts become in order, on the host, of so many at most: their places, and what was made of them.
        advance: told how many texts each pass had, and at the end how many were made already.
    """
    reported = 0

    def some(positions: list[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], _Output]]:
        nonlocal reported
        first = reported
        for rows, output in passes:
            yield np.arange(reported - first, reported - first + len(rows)), output
            positions.append(rows)
            reported += len(rows)
            advance(len(rows))
            if begun.due:
                return

    while begun.missing:
        positions: list[NDArray[np.int64]] = []
        encoded = gathered(some(positions), begun.count)
        own = np.concatenate(positions)
        begun.add(own, encoded[: len(own)])
    if begun.count > reported:
        advance(begun.count - reported)
    whole = begun.whole()
    return gathered((), 0) if whole is None else whole


def ahead(pending: Iterator[_Item], count: int) -> Iterator[_Item]:
    """The same items, each given when `count` behind it are there too: begun, where they are begun as they are made."""
    held: deque[_Item] = deque()
    for item in pending:
        held.append(item)
        if len(held) > count:
            yield held.popleft()
    yield from held


def one_ahead(pending: Iterator[_Item]) -> Iterator[_Item]:
    """The same items, each given when the one behind it is there too."""
    return ahead(pending, 1)
