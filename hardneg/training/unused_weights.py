"""Weights that no forward pass reaches, so that several processes need not search for them at every step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.towers import evaluating
from hardneg.records.errors import TrainingError
from hardneg.training.optimizers import stacks

_SKIPPING = ("layerdrop", "encoder_layerdrop", "layer_drop")


def never_reached(module: nn.Module) -> list[str] | None:
    """Return the learning weights that no pass reaches, such as a pooler's; None where passes may differ.

    Read from the graph of one pass without dropout over the input of `module.trial`. Passes may differ where a member
    of a list of layers or of experts was not reached, where layers are skipped by chance, and without a `trial`.
    """
    trial, configs = getattr(module, "trial", None), (getattr(part, "config", None) for part in module.modules())
    if trial is None or any(getattr(config, name, 0) for config in configs for name in _SKIPPING):
        return None
    with evaluating(module), torch.enable_grad(), torch.compiler.set_stance("force_eager"):
        outputs = module(*trial())
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        reached = set(map(id, _leaves([part for part in parts if isinstance(part, Tensor)])))
    missed = [name for name, weight in module.named_parameters() if weight.requires_grad and id(weight) not in reached]
    listed = tuple(path for path, _ in stacks(module))
    return None if any(name.startswith(listed) for name in missed) else missed


@contextmanager
def unreached(module: nn.Module, names: list[str]) -> Iterator[None]:
    """Raise TrainingError where one of these weights gets a gradient after all."""

    def refuse(_: Tensor) -> None:
        raise TrainingError(
            f"a weight that a first pass did not reach has a gradient: one of {', '.join(names)}; "
            "several processes cannot share it: train in one"
        )

    weights = dict(module.named_parameters())
    listened: list[Any] = [weights[name] for name in names]
    handles = [weight.register_post_accumulate_grad_hook(refuse) for weight in listened]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leaves(tensors: list[Tensor]) -> Iterator[Tensor]:
    """Yield the weights that the tensors were computed from."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node: Any = waiting.pop()
        if hasattr(node, "variable"):
            yield node.variable
        following = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= following
        waiting += following
