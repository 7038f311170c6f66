"""Draws of a query's negatives: positions in its list, drawn evenly, by rank or by a teacher's margins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Drawn = Literal["uniformly", "margin_bins"]
Windows = tuple[tuple[int, int], ...]
BINS = 10
"""Of a query's margins, as in the published program."""


@dataclass(frozen=True)
class Drawing:
    """How the positive and the negatives of a query are drawn; see the options of a training."""

    positive: Literal["drawn", "first"] = "drawn"
    iterate_negatives: bool = False
    negatives: Drawn = "uniformly"
    rank_windows: Windows | None = None

    def window(self, epoch: int, count: int, width: int) -> tuple[int, int]:
        """Return the range of positions from which an epoch draws `width` of `count` negatives.

        Of a list that ends before the window, the last `width` are drawn.
        """
        if not self.rank_windows:
            return 0, count
        skip, depth = self.rank_windows[min(epoch, len(self.rank_windows) - 1)]
        return (skip if skip < count else max(0, count - width)), min(depth, count)


def uniformly(count: int, width: int, source: "np.random.Generator") -> "NDArray[np.int64]":
    """Draw positions below `count`, int64 [width], without replacement where there are enough."""
    positions: NDArray[np.int64] = source.choice(count, width, replace=count < width)
    return positions


def margin_bins(scores: "NDArray[np.float32]") -> "NDArray[np.int64]":
    """The bin of each negative by its margin: of ten bins of equal width from the least margin to the largest.

    A margin is the teacher's score of the positive less that of the negative. The former is in all margins of a query,
    so that bins are known without it.

    Args:
        scores: float32 [n], the teacher's, nan where it has none.

    Returns:
        int64 [n], 0 to 9; -1 where there is no score.

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling
    (SIGIR 2021), section 3.2, Eq. 5.
    """
    import numpy as np

    margins, known = -scores.astype(np.float64), ~np.isnan(scores)
    if not known.any():
        return np.full(len(scores), -1, np.int64)
    least, most = margins[known].min(), margins[known].max()
    share = (margins[known] - least) / (most - least) if most > least else np.zeros(int(known.sum()))
    bins = np.full(len(scores), -1, np.int64)
    bins[known] = np.minimum((share * BINS).astype(np.int64), BINS - 1)
    return bins


def by_margin(scores: "NDArray[np.float32]", width: int, source: "np.random.Generator") -> "NDArray[np.int64]":
    """Draw positions of negatives, int64 [width]: a random bin that is not empty, then a random position in it.

    Without replacement where the teacher has scored enough; evenly of all where it has scored none.

    Args:
        scores: float32 [n], the teacher's, nan where it has none.
        width: how many to draw.
        source: of the draws.
    """
    import numpy as np

    bins = margin_bins(scores)
    if (bins < 0).all():
        return uniformly(len(scores), width, source)
    left, positions = bins.copy(), np.empty(width, np.int64)
    for number in range(width):
        if (left < 0).all():
            left = bins.copy()
        chosen = source.choice(np.unique(left[left >= 0]))
        positions[number] = source.choice(np.flatnonzero(left == chosen))
        left[positions[number]] = -1
    return positions
