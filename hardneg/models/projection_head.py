"""What comes after the transformer: pooling, projection, LayerNorm and normalisation as a spec says."""

from typing import Any

import torch
from torch import nn

from hardneg.errors import ModelError
from hardneg.models.spec import Activation, FullSpec
from hardneg.seeding import derive_seed

_PROJECTION_STD = 0.02


def arrange(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    """The modules with the pooling, head and normalisation that the spec asks for.

    Source: `projection` with `layer_norm` is the head of ANCE and STAR: Linear from N(0, 0.02), LayerNorm; with
    `activation` tanh it is that of CoRT.

    Raises:
        ModelError: the modules have no pooling to keep or to replace.
    """
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Normalize

    modules = _pooled(modules, spec)
    while isinstance(modules[-1], Normalize):
        modules = modules[:-1]
    if spec.projection is not None:
        modules = [*modules, _projection(_dimension(modules), spec.projection, spec.activation)]
    if spec.layer_norm:
        modules = [*modules, LayerNorm(_dimension(modules))]
    return [*modules, Normalize()] if spec.similarity == "cosine" else modules


def _pooled(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder: Any = modules[0]
    if spec.pooling == "own":
        if len(modules) == 1:
            raise ModelError(f"model {spec.name!r} has no pooling of its own: set pooling to cls, mean or lasttoken")
        return modules
    pooling = Pooling(encoder.get_embedding_dimension(), pooling_mode=spec.pooling)
    if len(modules) == 1:
        return [encoder, pooling]
    if not any(isinstance(module, Pooling) for module in modules):
        raise ModelError(f"model {spec.name!r} has no pooling that could be replaced: set pooling to own")
    return [pooling if isinstance(module, Pooling) else module for module in modules]


def _projection(size: int, dimension: int, activation: Activation) -> nn.Module:
    from sentence_transformers.sentence_transformer.modules import Dense

    draws = torch.Generator().manual_seed(derive_seed(0, "projection", size, dimension) >> 1)
    weight = torch.empty(dimension, size).normal_(0.0, _PROJECTION_STD, generator=draws)
    bias = torch.zeros(dimension)
    function = nn.Tanh() if activation == "tanh" else None
    dense: nn.Module = Dense(size, dimension, activation_function=function, init_weight=weight, init_bias=bias)
    return dense


def _dimension(modules: list[nn.Module]) -> int:
    for module in reversed(modules):
        if callable(size := getattr(module, "get_embedding_dimension", None)):
            return int(size())
    raise ModelError("the model does not tell the dimension of its vectors: set pooling to cls, mean or lasttoken")
