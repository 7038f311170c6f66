"""Attention over texts one after the other in one row, without padding: each attends to itself alone."""

from functools import cache
from importlib.util import find_spec
from inspect import signature
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hardneg.records.errors import ModelError

UNPADDED = "hardneg_unpadded"
"""Its name in transformers."""
KERNEL = "torch.nn.attention.varlen"
"""The module of torch with a kernel for CUDA, in bfloat16 and float16."""
_UNKNOWN = ("position_bias", "softcap", "s_aux")  # what some networks add to scores

Bounds = tuple[Tensor, int]
"""Where each text begins and the last one ends, int32 [n + 1], and the tokens of the longest."""


@cache
def kernel_options() -> frozenset[str]:
    """Names of the kernel's parameters in the installed torch, which differ by its version; none without a kernel."""
    if find_spec("torch.nn.attention") is None or find_spec(KERNEL) is None:
        return frozenset()
    from torch.nn.attention.varlen import varlen_attn

    return frozenset(signature(varlen_attn).parameters)


def has_kernel() -> bool:
    """Whether the installed torch has the kernel with a scale and a window: torch 2.11 or later."""
    return {"scale", "window_size"} <= kernel_options()


@cache
def register() -> None:
    """Registers it in transformers; masks are built for padded texts alone."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(UNPADDED, _forward)
    AttentionMaskInterface.register(UNPADDED, _mask)


def _mask(*sizes: Any, attention_mask: Tensor | None = None, **rest: Any) -> Tensor | None:
    from transformers.masking_utils import sdpa_mask

    return None if attention_mask is None else sdpa_mask(*sizes, attention_mask=attention_mask, **rest)


def _forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls: [rows, heads, tokens, size] to [rows, tokens, heads, size].

    SDPA computes padded texts, which have a mask.
    """
    if strange := [name for name in _UNKNOWN if rest.get(name) is not None]:
        raise ModelError(f"attention is unpadded, and a {type(module).__name__} has a {strange[0]}: leave it out")
    if attention_mask is not None:
        return by_sdpa(module, query, key, value, attention_mask, scaling=scaling, **rest)
    is_causal, window = rest.get("is_causal"), rest.get("sliding_window")
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    reach = -1 if window is None else window - 1
    attend = by_kernel if query.device.type == "cuda" else one_by_one
    flat = [part.transpose(1, 2).flatten(0, 1) for part in (query, key, value)]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    rows, length = query.shape[0], query.shape[2]
    if (begins := rest.get("cu_seq_lens_q")) is not None:
        length = rest["max_length_q"]
    else:  # a text a row
        begins = torch.arange(0, (rows + 1) * length, length, dtype=torch.int32, device=query.device)
    output = attend(flat, (begins, length), scale, (reach, 0 if causal else reach))
    return output.view(query.shape[0], query.shape[2], *output.shape[1:]), None


def by_sdpa(*arguments: Any, **rest: Any) -> tuple[Tensor, None]:
    """The SDPA attention of transformers."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    output: tuple[Tensor, None] = sdpa_attention_forward(*arguments, **rest)
    return output


def by_kernel(qkv: list[Tensor], bounds: Bounds, scale: float, reach: tuple[int, int]) -> Tensor:
    """The same as `one_by_one`, by torch's kernel on a GPU."""
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


def one_by_one(qkv: list[Tensor], bounds: Bounds, scale: float, reach: tuple[int, int]) -> Tensor:
    """softmax(Q Kᵀ) V of each text and head.

    Vaswani et al., Attention Is All You Need (2017), Equation 1.

    Args:
        qkv: queries [tokens, heads, size], keys and values [tokens, k, size], where a head of those may serve several.
        bounds: of the texts.
        scale: factor of the scores.
        reach: number of tokens before and after itself that a token attends to; -1 is all of its text.

    Returns:
        [tokens, heads, size].
    """
    outputs = torch.empty_like(qkv[0])
    begins = bounds[0].tolist()
    for start, stop in pairwise(begins):
        query, key, value = (part[start:stop].transpose(0, 1)[None] for part in qkv)
        seen = _seen(stop - start, reach, query.device)
        fewer = key.shape[1] != query.shape[1]
        output = scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale, enable_gqa=fewer)
        outputs[start:stop] = output[0].transpose(0, 1)
    return outputs


def _seen(length: int, reach: tuple[int, int], device: torch.device) -> Tensor | None:
    """bool [length, length], which token attends to which; None: all to all."""
    before, behind = (length if side < 0 else side for side in reach)
    if before >= length - 1 and behind >= length - 1:
        return None
    positions = torch.arange(length, device=device)
    ahead = positions - positions[:, None]
    return (ahead >= -before) & (ahead <= behind)
