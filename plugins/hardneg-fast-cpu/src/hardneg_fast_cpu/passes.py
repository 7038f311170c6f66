"""The fastest kernels for a large transformer on each kind of processor, from a fixed table instead of timing.

| | CPU with units for bfloat16 | other CPU | GPU with units for bfloat16 |
|---|---|---|---|
| linear layers | oneDNN (x86) | oneDNN in float32 (x86) | torch |
| attention in half precision | batched products | its library's | without padding |
"""

import platform
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from hardneg.plugin import runtime
from hardneg_fast_cpu.attention import BATCHED, UNPADDED, has_kernel, register
from hardneg_fast_cpu.packing import BOUNDS, Packing, keeps_apart, taken_packed

LARGE = 1_000_000
"""Minimum number of weights for which a transformer is switched to faster kernels."""
_DTYPES = (torch.float32, torch.bfloat16)
_TRIAL = ("a long text of many words, which stands before two others that are very short", "one", "and two")
_KEEP_APART: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


class OneDnnLinear(nn.Linear):
    """A linear layer without gradients: x Wᵀ + b as a single oneDNN call, in the dtype of the weights."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer to an input [..., in_features]; return [..., out_features]."""
        output: Tensor = torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")
        return output


def arrange(network: nn.Module) -> None:
    """Switch a network's transformer to fast CPU kernels, in place, if it is large and on a CPU."""
    transformer = _transformer(network)
    if transformer is None or transformer.device.type != "cpu":
        return
    half, sdpa = transformer.dtype == torch.bfloat16, transformer.config._attn_implementation == "sdpa"
    if half and sdpa and runtime.has_bf16_units(transformer.device) and transformer.is_backend_compatible():
        register()
        transformer.set_attn_implementation(BATCHED)
    if hasattr(torch.ops.mkldnn, "_linear_pointwise") and platform.machine() in {"x86_64", "AMD64"}:
        multiply_by_onednn(transformer)


def multiply_by_onednn(network: nn.Module) -> None:
    """Switch linear layers to oneDNN in place, up to twice as fast in float32; bfloat16 needs hardware support."""
    for layer in network.modules():
        if type(layer) is not nn.Linear or layer.weight.dtype not in _DTYPES or layer.weight.device.type != "cpu":
            continue
        if layer.weight.dtype == torch.float32 or runtime.has_bf16_units(layer.weight.device):
            layer.__class__ = OneDnnLinear


def packing(encoder: Any, side: Literal["query", "document"], parts: Sequence[Any]) -> Packing | None:
    """Return the packing for a large half-precision transformer on a GPU; None if unsupported or vectors would change.

    A few texts are encoded packed and alone, since networks that mix neighbouring texts, such as hybrids, need padding.

    parts: modules of the encoder; the first must be a copy, since its attention is changed in place.
    """
    transformer, own = _transformer(parts[0]), encoder.parts(side)[0].model
    if transformer is None or not may_pack(transformer):
        return None
    if encoder.representation.form != "vectors" or not taken_packed(parts):
        return None
    before = transformer.config._attn_implementation
    found = unpadded(parts[0])
    if own not in _KEEP_APART:
        run = partial(encoder.representation.run, parts, device=encoder.device, side=side)
        tokens = encoder.prompted(side, "").tokenise(_TRIAL, side)
        _KEEP_APART[own] = keeps_apart(run, tokens, found, encoder.device, transformer.dtype)
    if _KEEP_APART[own]:
        return found
    transformer.set_attn_implementation(before)
    return None


def may_pack(transformer: Any) -> bool:
    """Return whether a transformer is in half precision on a GPU with bfloat16 units, and torch has the kernel."""
    if transformer.device.type != "cuda" or transformer.dtype == torch.float32:
        return False
    return has_kernel() and runtime.has_bf16_units(transformer.device)


def unpadded(first: Any) -> Packing:
    """Switch an encoder's first module to attention without padding, in place; return the packing of texts for it."""
    register()
    first.model.set_attn_implementation(UNPADDED)
    if first.model_forward_params is not None:
        first.model_forward_params = {*first.model_forward_params, *BOUNDS}
    return Packing.of(first.model)


def _transformer(network: nn.Module) -> Any:
    """Return the large transformer in a network; None if there is none."""
    from transformers import PreTrainedModel

    found = next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)
    large = found is not None and sum(weight.numel() for weight in found.parameters()) >= LARGE
    return found if large else None
