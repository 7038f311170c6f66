"""Adversarial training: the word embeddings moved a little to where the loss is larger."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.distributed import world


def ascent(loss: Tensor, weight: Tensor, size: float) -> Tensor:
    """A step of 2-norm `size` along the loss's gradient with respect to `weight`, of the same shape; 0 where it is 0.

    Of several processes that computed one loss from what all gathered, each gets the same step.
    """
    (gradient,) = torch.autograd.grad(loss, weight)
    if world().size > 1:
        torch.distributed.all_reduce(gradient)
    norm = gradient.norm()
    return gradient * (size / norm if norm > 0 else 0.0)


@contextmanager
def moved(embeddings: nn.Module, step: Tensor) -> Iterator[None]:
    """Has an embedding layer look up its weights plus `step`; the weights themselves stay, and get their gradients."""

    def add(layer: nn.Module, given: tuple[Any, ...], vectors: Tensor) -> Tensor:
        return vectors + nn.functional.embedding(given[0], step).to(vectors.dtype)

    handle = embeddings.register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()
