"""The attention of a transformer: its library's, without padding, or batched products for CPUs fast in bfloat16."""

from functools import cache
from importlib.util import find_spec
from inspect import signature
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hardneg.encoders.spec import Attention
from hardneg.records.errors import ModelError
from hardneg.runtime.processor import processor_of

UNPADDED = "hardneg_unpadded"
"""The name in transformers of attention over texts in one row, without padding: each attends to itself alone."""
KERNEL = "torch.nn.attention.varlen"
"""The module of torch with a kernel for CUDA, in bfloat16 and float16."""
_UNKNOWN = ("position_bias", "softcap", "s_aux")  # what some networks add to scores

_BATCHED = "hardneg_batched"  # as transformers knows it
_PACKAGES = {"flash_attention_2": ("flash_attn", "flash-attn"), "flash_attention_3": ("flash_attn_interface", "")}
_LARGEST = 60.0  # a score up to which exp and sums of it are far from the ends of bfloat16
_LEAST = 1e-30  # a sum of weights from which on small ones among them are not lost
_FAR = -1e4  # what is added to the scores of padding
_LONGEST = 512  # tokens of a text up to which scores of all pairs of them are kept
_BYTES = 1 << 20  # of scores at a time, which stay in a core's cache

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


def _unpadded(
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
    if chosen in ("batched", "unpadded"):
        register()
        transformer.set_attn_implementation(_BATCHED if chosen == "batched" else UNPADDED)
    elif chosen not in ("auto", transformer.config._attn_implementation):
        transformer.set_attn_implementation(chosen)


def _of_processor(transformer: Any, packed: bool) -> Attention:
    half, usual = transformer.dtype, transformer.config._attn_implementation == "sdpa"
    plain = half == torch.bfloat16 and usual and transformer.is_backend_compatible()
    return processor_of(transformer.device).attention(half != torch.float32, packed and has_kernel(), plain)


@cache
def register() -> None:
    """Registers both attentions in transformers; unpadded, masks are built for padded texts alone."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def mask(*sizes: Any, attention_mask: Tensor | None = None, **rest: Any) -> Tensor | None:
        return None if attention_mask is None else sdpa_mask(*sizes, attention_mask=attention_mask, **rest)

    AttentionInterface.register(_BATCHED, _batched)
    AttentionMaskInterface.register(_BATCHED, sdpa_mask)
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
    """The function that transformers calls: batched products; SDPA computes what is not plain."""
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
