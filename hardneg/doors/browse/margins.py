"""How many negatives lie how far below their query's best positive, as bars."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BARS = 24


@dataclass(frozen=True)
class MarginHistogram:
    """edges: float64 [bars + 1], ascending, zero among them where margins lie on both sides; counts: int64 [bars]."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many margins there are."""
        return int(self.counts.sum())

    @property
    def below_zero(self) -> int:
        """How many negatives score higher than every positive of their query, as far as the bars show."""
        return int(self.counts[self.edges[1:] <= 0].sum())


def margin_histogram(parts: Sequence[NDArray[np.float32]], bars: int = BARS) -> MarginHistogram | None:
    """Bars of equal width over all margins, with an edge at zero; None where there is no margin.

    A margin of exactly zero counts to the bar above.
    """
    values = np.concatenate([np.empty(0, np.float32), *parts]).astype(np.float64)
    if not len(values):
        return None
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    width = (high - low or 1.0) / max(1, bars - 1)
    first, last = int(np.floor(low / width)), max(1, int(np.ceil(high / width)))
    edges: NDArray[np.float64] = np.arange(first, last + 1) * np.float64(width)
    bins = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return MarginHistogram(edges, np.bincount(bins, minlength=len(edges) - 1))
