"""The order of sources: which collection each draw of a training is of."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardneg.runtime.seeding import generator
from hardneg.training.examples import times_before

_BLOCK = 16_384


def source_shares(sizes: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """The probability of each source, float64 [S]: n^(1/T) over the sum of these.

    With T = 1 it is in proportion to the sizes; the larger T, the more alike all are.

    Source: Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (JMLR
    2020), section 3.5.2.
    """
    logs = np.log(np.array(sizes, np.float64))
    with np.errstate(over="ignore"):  # so small a T that the largest source is all
        weights = np.exp((logs - logs.max()) / temperature)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


@dataclass(frozen=True)
class SourceOrder:
    """The source of each draw of an endless order, a function of the seed and of the draw's number.

    shares: float64 [S], the probability of each source. seed: of the training.
    """

    shares: NDArray[np.float64]
    seed: int
    _sums: list[NDArray[np.int64]] = field(default_factory=list)
    _kept: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)

    def at(self, start: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sources of draws `start` to `start + count`, and how many draws of it each has before; int64 [count]."""
        first = start // _BLOCK
        blocks = range(first, -(-(start + count) // _BLOCK))
        for block in blocks:
            if block not in self._kept:
                drawn = self._block(block)
                self._kept[block] = drawn, self._drawn_before(block)[drawn] + times_before(drawn)
        sources, numbers = (np.concatenate(parts) for parts in zip(*map(self._kept.get, blocks), strict=True))
        for old in [block for block in self._kept if block < first]:
            del self._kept[old]
        part = slice(start - first * _BLOCK, start - first * _BLOCK + count)
        return sources[part], numbers[part]

    def counts(self, draws: int) -> NDArray[np.int64]:
        """How many of the first draws are of each source, int64 [S]."""
        block, rest = divmod(draws, _BLOCK)
        return self._drawn_before(block) + np.bincount(self._block(block)[:rest], minlength=len(self.shares))

    def _block(self, block: int) -> NDArray[np.int64]:
        return generator(self.seed, "sources", block).choice(len(self.shares), _BLOCK, p=self.shares)

    def _drawn_before(self, block: int) -> NDArray[np.int64]:
        """How many draws of each source all blocks before it have, int64 [S]; kept, as a training asks in order."""
        if not self._sums:
            self._sums.append(np.zeros(len(self.shares), np.int64))
        while len(self._sums) <= block:
            last = np.bincount(self._block(len(self._sums) - 1), minlength=len(self.shares))
            self._sums.append(self._sums[-1] + last)
        return self._sums[block]
