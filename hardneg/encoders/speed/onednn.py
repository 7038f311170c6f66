"""Linear layers by oneDNN, where it multiplies faster than the default library of torch."""

import torch
from torch import Tensor, nn

from hardneg.runtime.processor import processor_of

_DTYPES = (torch.float32, torch.bfloat16)


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
