"""MaxSim of padded token vectors, with gradients; the chunks and the products are sentence-transformers'.

A tensor of texts is float [n, T, d + 1]: a vector for each token, followed by 1 where the token is scored, else 0.
"""

import torch
from torch import Tensor

from hardneg.records.types import TokenVectors


def maxsim(queries: Tensor, documents: Tensor, mean: bool = False) -> Tensor:
    """The sum, over a query's tokens, of the largest inner product with a token of the document.

    The gradient of each query token goes to the best document token alone. A document without any scored token gets
    a score far below all others.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), Eq. 3.

    Args:
        queries: [B, q, d + 1].
        documents: [D, t, d + 1].
        mean: whether each score is divided by the number of the query's tokens.

    Returns:
        float32 [B, D].
    """
    from sentence_transformers.util import maxsim as of_all

    with torch.autocast(queries.device.type, enabled=False):
        ours, mine = _apart(queries)
        theirs, there = _apart(documents)
        scores: Tensor = of_all(ours, theirs, a_mask=mine, b_mask=there, length_normalize=mean)
        return scores


def maxsim_of_lists(queries: Tensor, documents: Tensor, mean: bool = False) -> Tensor:
    """`maxsim` of each query with documents of its own.

    Args:
        queries: [B, q, d + 1].
        documents: [B, M, t, d + 1].
        mean: whether each score is divided by the number of the query's tokens.

    Returns:
        float32 [B, M].
    """
    return torch.cat([maxsim(query[None], own, mean) for query, own in zip(queries, documents, strict=True)])


def _apart(marked: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors in float32, [n, T, d], and whether each is scored, [n, T]."""
    return marked[..., :-1].float(), marked[..., -1] > 0


def marked(vectors: Tensor, scored: Tensor) -> Tensor:
    """float32 [n, T, d + 1] of vectors [n, T, d] and the mask of scored tokens [n, T]; other vectors become 0."""
    kept = scored.to(vectors.dtype)[..., None]
    return torch.cat([vectors.masked_fill(~scored.bool()[..., None], 0), kept], dim=-1)


def collected(tensor: Tensor) -> TokenVectors:
    """The scored vectors of a tensor [n, T, d + 1], in the order of its texts."""
    there = tensor[..., -1] > 0
    offsets = torch.cat([there.new_zeros(1, dtype=torch.int64), there.sum(1).cumsum(0)])
    return TokenVectors(offsets.cpu().numpy(), tensor[..., :-1][there].float().cpu().numpy())


def padded(encoded: TokenVectors, device: torch.device) -> Tensor:
    """float32 [n, T, d + 1] of n texts' vectors, T those of the longest; zeros pad the others."""
    offsets = torch.from_numpy(encoded.offsets)
    lengths = offsets.diff()
    positions = torch.arange(int(lengths.max()) if len(lengths) else 0)
    there = (positions < lengths[:, None]).to(device)
    vectors = torch.from_numpy(encoded.vectors).to(device)
    tensor = vectors.new_zeros(*there.shape, vectors.shape[1] + 1)
    tensor[there] = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
    return tensor
