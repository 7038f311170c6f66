"""Documents scored by the best of their segments."""

import torch
from torch import Tensor

from hardneg.distributed import World, gather
from hardneg.training.scoring import at_least_float32


def in_slots(vectors: Tensor, counts: Tensor, slots: int) -> Tensor:
    """The segments of each document side by side.

    Args:
        vectors: float32 [S, d], those of one document after the other.
        counts: int64 [D], how many each has, at most `slots`.
        slots: places for a document's segments.

    Returns:
        float32 [D, slots, d + 1], with a 1 behind each vector; zeros where there is no segment.
    """
    counts = counts.to(vectors.device)
    document = torch.repeat_interleave(torch.arange(len(counts), device=vectors.device), counts)
    place = torch.arange(len(vectors), device=vectors.device) - (counts.cumsum(0) - counts)[document]
    marked = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
    empty = vectors.new_zeros(len(counts), slots, vectors.shape[1] + 1)
    return empty.index_put((document, place), marked)


def gather_slots(slots: Tensor, total: int, here: World | None = None) -> Tensor:
    """The slots of all processes' documents, `total` in all, as `hardneg.distributed.gather` puts them together."""
    return gather(slots.flatten(1), total, here).reshape(total, *slots.shape[1:])


def best_segments(queries: Tensor, slots: Tensor) -> Tensor:
    """The largest inner product of each query with a segment of each document; its gradient goes to that one alone.

    Args:
        queries: float [B, d].
        slots: float32 [D, slots, d + 1], as `in_slots` makes them; each document has a segment at least.

    Returns:
        float32 [B, D].
    """
    vectors, there = slots[..., :-1], slots[..., -1] > 0
    with torch.autocast(queries.device.type, enabled=False):
        products = (at_least_float32(queries) @ vectors.flatten(0, 1).T).reshape(len(queries), *there.shape)
    best: Tensor = products.masked_fill(~there, -torch.inf).max(dim=2).values
    return best
