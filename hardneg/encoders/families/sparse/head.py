"""A head of masked words for a transformer that has none: so that it can learn what terms a text stands for."""

from typing import Any

import torch
from torch import nn

from hardneg.records.errors import ModelError

_SCALE = 1 / 8  # so small that GELU is about a line; the norm behind it takes the scale out again
_BAR = 4.5


def new_head(model: Any, missing: set[str], name: str) -> None:
    """Sets the weights of a head that the model's files lack, from those that they have.

    The head is that of BERT: a layer, an activation, a norm, and the inner product with each term's embedding. The
    layer becomes an eighth of the identity, the norm plain. So a term's logit is the inner product of its embedding
    with what the transformer makes of a token, brought to mean 0 and variance 1. The bias of all terms is -4.5 times
    the mean norm of the embeddings: 4.5 standard deviations of such a product in a random direction, below which a
    term is not there. With all-MiniLM-L6-v2 about one term in a hundred is.

    Raises:
        ModelError: the head is built otherwise.
    """
    output, inputs = model.get_output_embeddings(), model.get_input_embeddings().weight
    if output is None or output.weight is not inputs or getattr(output, "bias", None) is None:
        raise ModelError(f"model {name!r} has no head of masked words, and none can be made for it: use another model")
    with torch.no_grad():
        for path, module in model.named_modules():
            if isinstance(module, nn.Linear) and module is not output and f"{path}.weight" in missing:
                module.weight.copy_(_SCALE * torch.eye(*module.weight.shape))
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, nn.LayerNorm) and f"{path}.weight" in missing:
                module.reset_parameters()
        output.bias.fill_(-_BAR * inputs.norm(dim=1).mean())
