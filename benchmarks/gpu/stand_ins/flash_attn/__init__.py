"""FlashAttention-2 as torch has it, by the names of flash-attn: for a peer to be timed with, without gradients."""

from typing import Any

import torch
from torch import Tensor

__version__ = "2.8.3"


def flash_attn_varlen_func(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    **_: Any,
) -> Any:
    """Texts one after the other: [tokens, heads, size]."""
    from torch.nn.attention.varlen import varlen_attn

    bounds = (cu_seqlens_q.int(), cu_seqlens_k.int(), int(max_seqlen_q), int(max_seqlen_k))
    window = (-1, 0 if causal else -1)
    return varlen_attn(query, key, value, *bounds, scale=softmax_scale, window_size=window)


def flash_attn_func(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Any:
    """Texts of one length: [rows, tokens, heads, size]."""
    rows, length = query.shape[:2]
    bounds = torch.arange(0, (rows + 1) * length, length, dtype=torch.int32, device=query.device)
    flat = (part.flatten(0, 1) for part in (query, key, value))
    return flash_attn_varlen_func(*flat, bounds, bounds, length, length, **given).view_as(query)


def flash_attn_with_kvcache(*_: Any, **__: Any) -> None:
    """Not of use here."""
    raise NotImplementedError
