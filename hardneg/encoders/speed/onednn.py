"""Linear layers by oneDNN, where it multiplies faster than the default library of torch."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.store.speed_trials import Way, choose, machine_of

_TOKENS = 1024
_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


class OneDnnLinear(nn.Linear):
    """A linear layer without gradients: x Wᵀ + b in one call of oneDNN, in the type of its weights."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., out_features] from [..., in_features]."""
        return _product(input, self.weight, self.bias)


def multiply_fastest(network: nn.Module) -> None:
    """Makes the linear layers of a network, without gradients, multiply by oneDNN where a trial is faster."""
    layers = [part for part in network.modules() if type(part) is nn.Linear]
    if layers and _faster(layers):
        for layer in layers:
            layer.__class__ = OneDnnLinear


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return output


def _faster(layers: list[nn.Linear]) -> bool:
    work: Counter[torch.Size] = Counter()
    for layer in layers:
        work[layer.weight.shape] += layer.weight.numel()
    shape = max(work, key=lambda each: (work[each], each.numel()))
    usual = next(layer.weight for layer in layers if layer.weight.shape == shape)
    if usual.device.type != "cpu" or usual.dtype not in _DTYPES or not torch._C._has_mkldnn:
        return False
    subject = f"products in {_DTYPES[usual.dtype]} on cpu, {usual.shape[1]} by {usual.shape[0]}"
    return choose(subject, machine_of(usual.device), _ways(usual)) == "onednn"


def _ways(weight: Tensor) -> dict[str, Way]:
    def ready(product: Callable[..., Any]) -> Callable[[], object]:
        rows, bias = torch.ones(_TOKENS, weight.shape[1], dtype=weight.dtype), weight.new_zeros(len(weight))

        def run() -> None:
            with torch.inference_mode():
                product(rows, weight, bias)

        return run

    return {"onednn": lambda: ready(_product), "torch": lambda: ready(nn.functional.linear)}
