"""The attention of a transformer: its library's, or batched products for CPUs that are fast in bfloat16."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from hardneg.encoders.spec import Attention
from hardneg.encoders.speed.unpadded import UNPADDED, by_sdpa, has_kernel, register
from hardneg.records.errors import ModelError
from hardneg.runtime.processor import processor_of

_BATCHED = "hardneg_batched"  # as transformers knows it
_PACKAGES = {"flash_attention_2": ("flash_attn", "flash-attn"), "flash_attention_3": ("flash_attn_interface", "")}
_LARGEST = 60.0  # a score up to which exp and sums of it are far from the ends of bfloat16
_LEAST = 1e-30  # a sum of weights from which on small ones among them are not lost
_FAR = -1e4  # what is added to the scores of padding
_LONGEST = 512  # tokens of a text up to which scores of all pairs of them are kept
_BYTES = 1 << 20  # of scores at a time, which stay in a core's cache


def check_attention(attention: Attention, transformer: Any, packed: bool = False) -> None:
    """Refuses an implementation that is not installed, or not available for this device or network.

    packed: whether the transformer may get packed texts.

    Raises:
        ModelError: names the implementation.
    """
    if attention == "auto":
        return
    named, instead = f"attention is {attention}", "leave it out, or set auto"
    device, (module, package) = transformer.device, _PACKAGES.get(attention, ("torch", ""))
    if attention in _PACKAGES and device.type != "cuda":
        raise ModelError(f"{named}, which needs a GPU by CUDA; this is {device.type}: {instead}")
    if find_spec(module) is None:
        advice = f"pip install {package}" if package else f"install what brings {module}"
        raise ModelError(f"{named}, and {module} is not installed: {advice}, or {instead}")
    if attention == "batched" and device.type != "cpu":
        raise ModelError(f"{named}, which is for CPUs; this is {device.type}: {instead}")
    if attention == "unpadded":
        _check_unpadded(transformer, packed)
    if not transformer.is_backend_compatible() and transformer.config._attn_implementation != attention:
        raise ModelError(f"{named}, and a {type(transformer).__name__} has its own attention alone: {instead}")


def _check_unpadded(transformer: Any, packed: bool) -> None:
    named, instead = "attention is unpadded", "leave it out, or set auto"
    if not packed:
        raise ModelError(
            f"{named}, and a {type(transformer).__name__} here does not take texts in one row, as encoders with "
            f"one pooled vector and positions as input do: {instead}"
        )
    if transformer.device.type == "cuda" and not has_kernel():
        raise ModelError(f"{named}, for which this torch has no kernel: install torch 2.11 or later, or {instead}")
    if transformer.device.type == "cuda" and transformer.dtype == torch.float32:
        raise ModelError(f"{named}, which on a GPU takes bf16 or fp16, and this is fp32: precision bf16, or {instead}")


def set_attention(transformer: Any, attention: Attention, packed: bool = False) -> None:
    """Sets the attention of a transformer; `auto` takes its processor's, or keeps the library's.

    packed: whether it may get packed texts.

    Raises:
        ModelError: the attention is not available.
    """
    check_attention(attention, transformer, packed)
    chosen = _of_processor(transformer, packed) if attention == "auto" else attention
    if chosen in _OURS:
        name, register_it = _OURS[chosen]
        register_it()
        transformer.set_attn_implementation(name)
    elif chosen not in {"auto", transformer.config._attn_implementation}:
        transformer.set_attn_implementation(chosen)


def _of_processor(transformer: Any, packed: bool) -> Attention:
    half, usual = transformer.dtype, transformer.config._attn_implementation == "sdpa"
    plain = half == torch.bfloat16 and usual and transformer.is_backend_compatible()
    return processor_of(transformer.device).attention(half != torch.float32, packed and has_kernel(), plain)


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_BATCHED, _forward)
    AttentionMaskInterface.register(_BATCHED, sdpa_mask)


def _forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls; SDPA computes what is not plain."""
    if _is_plain(module, (query, key, value), attention_mask, rest):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        hidden = None if attention_mask is None else ~attention_mask[:, 0, 0]
        output = attended(query * scale, key, value, hidden)
        if output is not None:
            return output.transpose(1, 2), None
    return by_sdpa(module, query, key, value, attention_mask, scaling=scaling, **rest)


def _is_plain(module: Any, qkv: tuple[Tensor, ...], mask: Tensor | None, rest: dict[str, Any]) -> bool:
    """Every token of a text sees the same tokens, with a head of keys for each of queries, in bfloat16."""
    query = qkv[0]
    if torch.is_grad_enabled() or query.dtype != torch.bfloat16 or query.shape[2] > _LONGEST:
        return False
    if any(part.shape != query.shape for part in qkv) or any(isinstance(each, Tensor) for each in rest.values()):
        return False
    if mask is None:
        causal = rest.get("is_causal")
        return not (getattr(module, "is_causal", True) if causal is None else causal)
    return mask.dtype == torch.bool and mask.shape[1] == 1 and bool((mask == mask[:, :, :1]).all())


_OURS = {"batched": (_BATCHED, _register), "unpadded": (UNPADDED, register)}
"""Their names in transformers, and the functions that register them."""


def attended(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor | None:
    """softmax(Q Kᵀ) V of each head by batched products in bfloat16, without a row's maximum.

    Vaswani et al., Attention Is All You Need (2017), Equation 1. A softmax is the same for shifted scores. So the
    largest score, which exp needs bounded, is bounded by norms: |q| max |k|. Two more numbers of each query and key
    shift a row by what the bound has too much, and take padding out, in the product itself.

    Args:
        query, key, value: bfloat16 [texts, heads, tokens, size], the queries scaled.
        hidden: bool [texts, tokens], what is padding; None: nothing is.

    Returns:
        bfloat16 [texts, heads, tokens, size]; None where a bound is so far off that weights vanish.
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
