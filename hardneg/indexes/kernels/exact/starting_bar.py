"""A lower bound that a query's k-th best score very likely reaches, from a sample of the vectors before the search.

It spares a search most of the candidates that its first blocks would bring. Nothing rests on it: a query whose k-th
best score stays below is searched again.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite
from hardneg.indexes.kernels.exact.exact_torch import DeviceVectors
from hardneg.indexes.kernels.exact.rounded_tiles import GROUP, Tile, group_maxima
from hardneg.indexes.kernels.exact.rounding import Rounded, error_bounds, rounded_down
from hardneg.indexes.kernels.exact.top_k import kth_largest

_LEAST, _MOST = 16_384, 65_536  # vectors of a sample
_FOR_EACH = 4  # of the best k that a sample is to hold
_DEVIATIONS, _MORE = 4.0, 6  # that the sample may hold more of the best k than is likely
_SHARE = 4  # the sample is at most this part of all


def sample_groups(count: int, k: int) -> NDArray[np.int64]:
    """The numbers of the groups of 16 rows that make the sample, ascending: int64 [g], the same for the same sizes."""
    size = min(count // _SHARE, _MOST, max(_LEAST, _FOR_EACH * count // k)) // GROUP
    return np.sort(np.random.default_rng(0).choice(count // GROUP, size, replace=False)) if size else np.empty(0, int)


def sample_rank(count: int, k: int, groups: int) -> int:
    """Which of the sample's groups, by its best score, has one below the k-th best score of all `count` vectors.

    The best k lie in k groups at most, so the number of those that a sample of g from n groups holds has a mean of at
    most m = k g / n, and its deviation is at most the root of that (hypergeometric). Four of these and six more are
    added, which fails for a few queries in a million.
    """
    expected = k * groups * GROUP / max(count, 1)
    return int(expected + _DEVIATIONS * expected**0.5) + _MORE


def sample_tiles(
    vectors: NDArray[np.float32] | FlatVectors | DeviceVectors,
    groups: NDArray[np.int64],
    size: int,
    device: torch.device,
) -> Iterator[Tile]:
    """The vectors of these groups, `size` at a time.

    Raises:
        ArtifactError: for a vector that is not finite.
    """
    for start in range(0, len(groups), size // GROUP):
        numbers = groups[start : start + size // GROUP]
        rows = (numbers[:, None] * GROUP + np.arange(GROUP)).reshape(-1)
        if isinstance(vectors, DeviceVectors):
            block = vectors.rows[torch.from_numpy(rows).to(vectors.rows.device)].to(device)
        else:
            if isinstance(vectors, FlatVectors):
                first = vectors.first_row
                read = np.concatenate([vectors.read(n * GROUP, (n + 1) * GROUP) for n in numbers.tolist()])
            else:
                first, read = 0, np.require(vectors[rows], np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
            check_finite(read, rows + first)
            block = torch.from_numpy(read).to(device)
        yield Tile.of(0, block)


def starting_bar(queries: Rounded, tiles: list[Tile], rank: int, space: Tensor) -> Tensor:
    """Return float32 [q], a lower bound of the `rank`-th best group of the sample in float32."""
    maxima = torch.cat([group_maxima(tile.scores(queries, space)).float() for tile in tiles], 1)
    bound = torch.stack([error_bounds(queries, tile.rounded) for tile in tiles]).amax(0)
    return rounded_down(kth_largest(maxima, rank)).float() - bound
