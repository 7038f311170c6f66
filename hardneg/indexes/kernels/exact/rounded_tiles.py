"""Blocks of scores in bf16: vectors ordered so that the scores that reach a query's bar are cheap to find."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hardneg.indexes.kernels.exact.rounding import Rounded
from hardneg.indexes.kernels.exact.top_k import true_indices

GROUP = 16
"""Neighbouring vectors, of whose scores the largest is compared with the bar first."""


@dataclass(frozen=True)
class Tile:
    """Vectors float32 [n, d] from row `start` on, and the same rounded, their values in the order of `in_groups`."""

    start: int
    vectors: Tensor
    rounded: Rounded

    @classmethod
    def of(cls, start: int, vectors: Tensor) -> "Tile":
        """Rounds a block of vectors."""
        rounded = Rounded.of(vectors)
        return cls(start, vectors, replace(rounded, values=in_groups(rounded.values)))

    def scores(self, queries: Rounded, space: Tensor) -> Tensor:
        """bf16 [q, 16 * g], in `space`, which has room for them."""
        lines, columns = len(queries.values), len(self.rounded.values)
        return torch.mm(queries.values, self.rounded.values.T, out=space[: lines * columns].view(lines, columns))


def in_groups(vectors: Tensor) -> Tensor:
    """Return [n, d] as [16 * g, d]: row r moves to r % 16 * g + r // 16, padded with zeros."""
    missing = -len(vectors) % GROUP
    padded = torch.nn.functional.pad(vectors, (0, 0, 0, missing)) if missing else vectors
    return padded.view(-1, GROUP, vectors.shape[1]).transpose(0, 1).reshape(padded.shape)


def group_maxima(scores: Tensor) -> Tensor:
    """The largest of each group: [q, 16 * g] to [q, g]."""
    return scores.view(len(scores), GROUP, -1).amax(1)


def reaching(scores: Tensor, bar: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The query and the row in the tile of all scores that reach the bar, in that order: int64 [p]; float32 [p].

    Args:
        scores: bf16 [q, 16 * g].
        bar: bf16 [q].
        count: how many vectors the tile has; the others are zeros.
    """
    if scores.device.type == "cpu" and bool((bar > 0).all()):  # numbers above zero are in the order of their bits
        query, row, kept = _reaching(scores.view(torch.int16), bar.view(torch.int16), count)
    else:
        query, row, kept = _reaching(scores, bar, count)
    return query, row, scores.view(-1).index_select(0, kept).float()


def _reaching(scores: Tensor, bar: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries, the rows, and the flat indices of the scores that reach the bar."""
    columns = scores.shape[1]
    groups = columns // GROUP
    some = true_indices(group_maxima(scores) >= bar[:, None])
    query = some.div(groups, rounding_mode="floor")
    first = some + query * (columns - groups)
    members = (first[:, None] + torch.arange(GROUP, device=scores.device) * groups).view(-1)
    least = bar.index_select(0, query)[:, None]
    entering = true_indices(scores.view(-1).index_select(0, members).view(-1, GROUP) >= least)
    kept = members.index_select(0, entering)
    query = kept.div(columns, rounding_mode="floor")
    row = (kept - query * columns) % groups * GROUP + (entering & (GROUP - 1))
    if columns > count:
        real = row < count
        return query[real], row[real], kept[real]
    return query, row, kept
