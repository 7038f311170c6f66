"""Attention for transformers: without padding on GPUs, and as batched products on CPUs that are fast in bfloat16."""

from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from hardneg.plugin import errors

UNPADDED = "hardneg_unpadded"
"""The name of attention without padding in transformers' registry; a row may contain several texts."""
KERNEL = "torch.nn.attention.varlen"
"""The torch module with a CUDA kernel for bfloat16 and float16."""
_UNKNOWN = ("position_bias", "softcap", "s_aux")  # terms that some networks add to scores

BATCHED = "hardneg_batched"
"""The name of attention as batched products in transformers' registry."""
_LARGEST = 60.0  # the largest score whose exp and sums are well within bfloat16's range
_LEAST = 1e-30  # the smallest sum of weights in which small weights are not lost
_FAR = -1e4  # added to the scores of padding
_LONGEST = 512  # the longest text whose scores of all token pairs are computed at once
_BYTES = 1 << 20  # of scores at a time, to stay in a core's cache

Bounds = tuple[Tensor, int]
"""The start of each text and the end of the last one, int32 [n + 1], and the length of the longest text."""


@cache
def kernel_options() -> frozenset[str]:
    """Return the names of the kernel's parameters in the installed version of torch; empty without a kernel."""
    if find_spec("torch.nn.attention") is None or find_spec(KERNEL) is None:
        return frozenset()
    from torch.nn.attention.varlen import varlen_attn

    return frozenset(signature(varlen_attn).parameters)


def has_kernel() -> bool:
    """Return whether the installed torch has a kernel with a scale and a window, as torch 2.11 and later do."""
    return {"scale", "window_size"} <= kernel_options()


def _unpadded(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """Compute attention without padding, called by transformers; padded texts, which have a mask, use SDPA.

    Inputs are [rows, heads, tokens, size]; the output is [rows, tokens, heads, size].
    """
    if strange := [name for name in _UNKNOWN if rest.get(name) is not None]:
        raise errors.ModelError(
            f"unpadded attention does not support the {strange[0]} of a {type(module).__name__}; set attention sdpa"
        )
    if attention_mask is not None:
        return by_sdpa(module, query, key, value, attention_mask, scaling=scaling, **rest)
    is_causal, window = rest.get("is_causal"), rest.get("sliding_window")
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    reach = -1 if window is None else window - 1
    flat = [part.transpose(1, 2).flatten(0, 1) for part in (query, key, value)]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    rows, length = query.shape[0], query.shape[2]
    if (begins := rest.get("cu_seq_lens_q")) is not None:
        length = rest["max_length_q"]
    else:  # a text a row
        begins = torch.arange(0, (rows + 1) * length, length, dtype=torch.int32, device=query.device)
    output = by_kernel(flat, (begins, length), scale, (reach, 0 if causal else reach))
    return output.view(query.shape[0], query.shape[2], *output.shape[1:]), None


def by_sdpa(*arguments: Any, **rest: Any) -> tuple[Tensor, None]:
    """Compute attention with transformers' `sdpa_attention_forward`, which defines the arguments and output."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    output: tuple[Tensor, None] = sdpa_attention_forward(*arguments, **rest)
    return output


def by_kernel(qkv: list[Tensor], bounds: Bounds, scale: float, reach: tuple[int, int]) -> Tensor:
    """Compute softmax(Q Kᵀ) V for each text and head with torch's kernel.

    Vaswani et al., Attention Is All You Need (2017), Equation 1.

    qkv: queries [tokens, heads, size]; keys and values [tokens, k, size], where several query heads may share one of
    the k heads. bounds: see `Bounds`. scale: factor of the scores. reach: how many tokens before and after itself each
    token attends to; -1 for no limit.
    Returns [tokens, heads, size].
    """
    from torch.nn.attention.varlen import varlen_attn

    query, key, value = qkv
    begins, longest = bounds
    options: dict[str, Any] = {"scale": scale, "window_size": reach}
    if (times := query.shape[1] // key.shape[1]) > 1:
        if "enable_gqa" in kernel_options():  # torch 2.12
            options["enable_gqa"] = True
        else:
            key, value = (part.repeat_interleave(times, dim=1) for part in (key, value))
    output = varlen_attn(query, key, value, begins, begins, longest, longest, **options)
    assert isinstance(output, Tensor)
    return output


@cache
def register() -> None:
    """Register both kinds of attention with transformers; the unpadded kind gets a mask only for padded texts."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def mask(*sizes: Any, attention_mask: Tensor | None = None, **rest: Any) -> Tensor | None:
        return None if attention_mask is None else sdpa_mask(*sizes, attention_mask=attention_mask, **rest)

    AttentionInterface.register(BATCHED, _batched)
    AttentionMaskInterface.register(BATCHED, sdpa_mask)
    AttentionInterface.register(UNPADDED, _unpadded)
    AttentionMaskInterface.register(UNPADDED, mask)


def _batched(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """Compute attention as batched products, called by transformers; cases that are not plain use SDPA."""
    if _is_plain(module, (query, key, value), attention_mask, rest):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        hidden = None if attention_mask is None else ~attention_mask[:, 0, 0]
        output = attended(query * scale, key, value, hidden)
        if output is not None:
            return output.transpose(1, 2), None
    return by_sdpa(module, query, key, value, attention_mask, scaling=scaling, **rest)


def _is_plain(module: Any, qkv: tuple[Tensor, ...], mask: Tensor | None, rest: dict[str, Any]) -> bool:
    """Return whether all tokens of a text attend to the same tokens, with one key head per query head, in bfloat16."""
    query = qkv[0]
    if torch.is_grad_enabled() or query.dtype != torch.bfloat16 or query.shape[2] > _LONGEST:
        return False
    if any(part.shape != query.shape for part in qkv) or any(isinstance(each, Tensor) for each in rest.values()):
        return False
    if mask is None:
        causal = rest.get("is_causal")
        return not (getattr(module, "is_causal", True) if causal is None else causal)
    return mask.dtype == torch.bool and mask.shape[1] == 1 and bool((mask == mask[:, :, :1]).all())


def attended(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor | None:
    """Compute softmax(Q Kᵀ) V for each head as batched products in bfloat16, without the maximum of each row.

    Vaswani et al., Attention Is All You Need (2017), Equation 1. Shifting the scores does not change a softmax. To
    keep exp in range, the excess of a bound on the scores, |q| max |k|, over 60 is subtracted instead of their maximum.
    Two additional numbers per query and key apply this shift and the padding mask within the product itself.

    query, key, value: bfloat16 [texts, heads, tokens, size], the queries scaled. hidden: bool [texts, tokens], true for
    padding; None without padding.
    Returns bfloat16 [texts, heads, tokens, size], or None if a bound is so loose that weights underflow.
    """
    texts, heads, length, size = query.shape
    bound = query.norm(dim=-1, keepdim=True) * key.norm(dim=-1).amax(-1)[..., None, None]
    shift = (bound - _LARGEST).clamp_(min=0)
    if hidden is not None or bool(shift.any()):
        one = query.new_ones(1).expand(texts, heads, length, 1)
        far = query.new_zeros(1) if hidden is None else (hidden * _FAR).to(query.dtype)[:, None, :, None]
        query = torch.cat([query, one, -shift], -1)
        key = torch.cat([key, far.expand_as(one), one], -1)
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    output, sums = torch.empty_like(value), value.new_empty(texts * heads, length, 1)
    step = max(1, _BYTES // (2 * length * length))
    for part in (slice(start, start + step) for start in range(0, len(output), step)):
        weights = torch.bmm(query[part], key[part].transpose(1, 2)).exp_()
        torch.sum(weights, -1, keepdim=True, out=sums[part])
        torch.bmm(weights, value[part], out=output[part])
    if not bool((sums > _LEAST).all()):
        return None
    return output.div_(sums).view(texts, heads, length, size)
