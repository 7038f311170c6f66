"""The first weights of a projection of token vectors."""

from typing import Any

import torch
from torch import nn

from hardneg.errors import ModelError
from hardneg.seeding import derive_seed


def projection(transformer: Any, dimension: int) -> nn.Module:
    """A linear layer without bias whose rows are drawn at random and then made orthonormal.

    Inner products of what it makes of token vectors are those of the vectors times a constant, but for noise: so a
    model ranks about as well with it as without it before any training.

    Source: the layer is that of Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2.
    """
    from sentence_transformers.base.modules import Dense

    size = int(transformer.get_embedding_dimension())
    if dimension > size:
        raise ModelError(f"encoder.dimension is {dimension}: token vectors have {size} dimensions, give fewer")
    draws = torch.Generator().manual_seed(derive_seed(0, "token projection", size, dimension) >> 1)
    weight = torch.linalg.qr(torch.randn(size, dimension, generator=draws)).Q.T.contiguous()
    dense: nn.Module = Dense(
        size,
        dimension,
        bias=False,
        activation_function=nn.Identity(),
        init_weight=weight,
        module_input_name="token_embeddings",
    )
    return dense
