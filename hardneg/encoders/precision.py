"""The precision of a network, by what its device can do, and copies of it to compute with."""

import shutil
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import nn

from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import Attention, Precision
from hardneg.records.errors import ModelError, UsageError
from hardneg.registry.faster import FasterPasses, faster_passes
from hardneg.runtime.devices import has_bf16_units
from hardneg.store.choices import choose

Use = Literal["inference", "training"]

LARGE = 1_000_000
"""Weights from which on a transformer's precision makes a difference."""
_COMPILERS = ("g++", "c++", "clang++", "cl")
_PACKAGES = {"flash_attention_2": ("flash_attn", "flash-attn"), "flash_attention_3": ("flash_attn_interface", "")}


def takes_bf16(precision: Precision, network: nn.Module, use: Use) -> bool:
    """Whether the transformer in `network` is to compute in bfloat16; `auto` does where the device has units for it.

    Without a transformer, or with one of fewer than a million weights, `auto` is float32. What resumes keeps to what
    it began with.

    Raises:
        UsageError: bfloat16 is requested on a GPU that only imitates it.
    """
    if precision == "auto":
        transformer = transformer_of(network)
        weights = 0 if transformer is None else sum(weight.numel() for weight in transformer.parameters())
        if weights < LARGE:
            return False
        subject = f"{use} on {transformer.device.type}, {weights:,} weights"
        return choose(subject, *("bf16", "fp32") if has_bf16_units(transformer.device) else ("fp32", "bf16")) == "bf16"
    if precision == "bf16":
        device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
        if device.type == "cuda" and not has_bf16_units(device):
            raise UsageError(
                f"precision bf16 needs a GPU of CUDA capability 8.0 or later, and {torch.cuda.get_device_name(device)} "
                "is older: set precision to fp32 or auto"
            )
    return precision == "bf16"


def arrange(network: nn.Module, options: EncodeOptions) -> FasterPasses | None:
    """Sets the ways of a copy of a network, without gradients; returns the faster ones of a package, if it has them.

    Raises:
        ModelError: the attention is not available, or nothing can be compiled here.
    """
    transformer = transformer_of(network)
    if transformer is None:
        return None
    if options.attention not in ("auto", transformer.config._attn_implementation):
        check_attention(options.attention, transformer)
        transformer.set_attn_implementation(options.attention)
    if options.compile:
        set_compiled(transformer)
    faster = faster_passes() if options.attention == "auto" and not options.compile else None
    if faster is not None:
        faster.arrange(network)
    return faster


def check_attention(attention: Attention, transformer: Any) -> None:
    """Refuses an implementation that is not installed, or not available for this device or network. As ModelError."""
    named, (module, package) = f"attention is {attention}", _PACKAGES.get(attention, ("torch", ""))
    if attention in _PACKAGES and transformer.device.type != "cuda":
        problem = f"which needs a GPU by CUDA; this is {transformer.device.type}"
    elif find_spec(module) is None:
        advice = f"pip install {package}" if package else f"install what brings {module}"
        problem = f"and {module} is not installed: {advice}"
    elif not transformer.is_backend_compatible():
        problem = f"and a {type(transformer).__name__} has its own attention alone"
    else:
        return
    raise ModelError(f"{named}, {problem}: leave it out, or set auto")


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


def transformer_of(network: nn.Module) -> Any:
    """The transformer in a network; None without one."""
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)
