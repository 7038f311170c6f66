"""Exact search at several numbers of dimensions, in one pass over the vectors."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.plugin import Hits, UsageError, top_k

_QUERIES = 1024
_ROUNDING = 1e-3


def search_truncated(
    corpus: Callable[[], Iterable[tuple[int, NDArray[np.float32]]]],
    queries: NDArray[np.float32],
    dims: Sequence[int],
    k: int,
    device: str = "cpu",
) -> dict[int, Hits]:
    """The k best documents of each query by the first dimensions of the vectors, for each number of them.

    Args:
        corpus: starts a pass over the vectors, float32 [N, d].
        queries: float32 [Q, d]; if all have norm 1, truncated vectors are normalized again.
        dims: numbers of dimensions, none above d.
        k: how many documents.
        device: where to compute.

    Raises:
        UsageError: the vectors have fewer dimensions.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), section 4.2.
    """
    width = queries.shape[1]
    if too_many := [dim for dim in dims if dim > width]:
        raise UsageError(f"dims: {too_many[0]} is more than the {width} dimensions of the vectors: give fewer")
    normalised = bool((np.abs(np.linalg.norm(queries, axis=1) - 1) < _ROUNDING).all())
    starts, held = range(0, len(queries), _QUERIES), torch.from_numpy(queries).to(device)
    parts_by_dim = {dim: [_cut(held[start : start + _QUERIES], dim, normalised) for start in starts] for dim in dims}
    best = {dim: top_k.BestRows(len(starts), k) for dim in dims}
    with torch.inference_mode():
        for start, block in corpus():
            vectors = torch.from_numpy(block).to(device)
            for dim, parts in parts_by_dim.items():
                shorter = _cut(vectors, dim, normalised)
                for number, part in enumerate(parts):
                    best[dim].add(number, part @ shorter.T, start)
    return {dim: each.hits(len(queries)) for dim, each in best.items()}


def _cut(vectors: Tensor, dim: int, normalised: bool) -> Tensor:
    shorter = vectors[:, :dim]
    whole = dim == vectors.shape[1]
    return torch.nn.functional.normalize(shorter, dim=-1) if normalised and not whole else shorter
