"""Networks in the precision and the ways of `hardneg.runtime.processor`, and tokens of a pass."""

import shutil
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardneg.encoders.spec import Attention, Precision
from hardneg.encoders.speed.attention import set_attention
from hardneg.encoders.towers import in_bfloat16, sharing
from hardneg.records.errors import ModelError, UsageError
from hardneg.runtime.processor import processor_of
from hardneg.store.choices import choose

Use = Literal["inference", "training"]

LARGE = 1_000_000
"""Weights from which on a transformer's precision and ways make a difference."""
_GPU_TOKENS = 65_536
_DTYPES = (torch.float32, torch.bfloat16)
_COMPILERS = ("g++", "c++", "clang++", "cl")
_CPU_OUTPUT, _GPU_OUTPUT = 512 << 20, 16 << 30  # bytes that a pass may make of its tokens


class OneDnnLinear(nn.Linear):
    """A linear layer without gradients: x Wᵀ + b in one call of oneDNN, in the type of its weights."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., out_features] from [..., in_features]."""
        output: Tensor = torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")
        return output


def multiply_fastest(network: nn.Module) -> None:
    """Makes the linear layers of a network, without gradients, multiply by oneDNN where the processor can."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for layer in network.modules():
        if type(layer) is not nn.Linear or layer.weight.dtype not in _DTYPES:
            continue
        if processor_of(layer.weight.device).onednn(layer.weight.dtype == torch.bfloat16):
            layer.__class__ = OneDnnLinear


def set_compiled(transformer: Any) -> None:
    """Has a transformer compiled at its first pass, once for all lengths.

    Raises:
        ModelError: it computes on a CPU, and there is no compiler of C++.
    """
    if transformer.device.type == "cpu" and not any(map(shutil.which, _COMPILERS)):
        raise ModelError(
            "compile needs a compiler of C++ on a CPU, and none is on the path: install g++, or leave it out"
        )
    transformer.compile(dynamic=True)


def takes_bf16(precision: Precision, network: nn.Module, use: Use) -> bool:
    """Whether the transformer in `network` is to compute in bfloat16; `auto` does where the device has units for it.

    Without a transformer, or with one of fewer than a million weights, `auto` is float32. What resumes keeps to what
    it began with.

    Raises:
        UsageError: bfloat16 is requested on a GPU that only imitates it.
    """
    if precision == "auto":
        transformer = _transformer(network)
        if transformer is None or (weights := _count(transformer)) < LARGE:
            return False
        subject = f"{use} on {transformer.device.type}, {weights:,} weights"
        return choose(subject, processor_of(transformer.device).precision, "fp32", "bf16") == "bf16"
    if precision == "bf16":
        device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
        if device.type == "cuda" and not processor_of(device).bf16:
            raise UsageError(
                f"precision bf16 needs a GPU of CUDA capability 8.0 or later, and {torch.cuda.get_device_name(device)} "
                "is older: set precision to fp32 or auto"
            )
    return precision == "bf16"


def arranged(
    network: nn.Module, attention: Attention = "auto", compiled: bool = False, half: bool = False, packed: bool = False
) -> Any:
    """A copy of a network with a transformer inside, to compute without gradients, arranged by `arrange`.

    half: whether the copy has bfloat16 weights; else it shares those of the network.
    """
    copied = in_bfloat16(network) if half else sharing(network)
    arrange(copied, attention, compiled, packed)
    return copied


def arrange(network: nn.Module, attention: Attention = "auto", compiled: bool = False, packed: bool = False) -> None:
    """Makes a copy of a network compute, in its precision, in the fast ways of its processor.

    A network without a transformer, or with one of fewer than a million weights, stays as it is unless requested.

    packed: whether it may get packed texts; not where it is compiled.

    Raises:
        ModelError: the attention is not available, or nothing can be compiled here.
    """
    transformer = _transformer(network)
    if transformer is None:
        return
    large = _count(transformer) >= LARGE
    if attention != "auto" or large:
        set_attention(transformer, attention, packed and not compiled)
    if compiled:
        set_compiled(transformer)
    elif large:
        multiply_fastest(transformer)


def _count(transformer: Any) -> int:
    return sum(weight.numel() for weight in transformer.parameters())


def _transformer(network: nn.Module) -> Any:
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)


def usual_budget(device: torch.device) -> int:
    """Tokens of a pass, padding included: on a CPU what stays in its caches."""
    return 1024 * torch.get_num_threads() if device.type == "cpu" else _GPU_TOKENS


def most_tokens(first: Any, device: torch.device) -> int:
    """The most tokens of a pass whose output of the first module is not too large, such as logits of all terms."""
    numbers = int(first.get_embedding_dimension()) if hasattr(first, "get_embedding_dimension") else 1
    return max(1, (_CPU_OUTPUT if device.type == "cpu" else _GPU_OUTPUT) // (4 * numbers))
