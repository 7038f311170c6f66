"""The precision of a network, by what its device can do, and copies of it to compute with."""

from typing import Any, Literal

import torch
from torch import nn

from hardneg.encoders.spec import Precision
from hardneg.records import UsageError
from hardneg.registry import faster
from hardneg.runtime import has_bf16_units
from hardneg.store import choose

Use = Literal["inference", "training"]

LARGE = 1_000_000
"""Weights from which on a transformer's precision makes a difference."""


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


def arrange(network: nn.Module) -> Any:
    """Has a copy of a network, without gradients, compute in the faster ways of a package; returns them, if any."""
    passes = None if transformer_of(network) is None else faster("passes")
    if passes is not None:
        passes.arrange(network)
    return passes


def transformer_of(network: nn.Module) -> Any:
    """The transformer in a network; None without one."""
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)
