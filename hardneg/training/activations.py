"""Gradient checkpointing: activations are computed twice, so that training needs less memory."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from hardneg.records.errors import UsageError

Off = Callable[[], None]


def compute_twice(module: nn.Module) -> Off:
    """Make every transformer in a module keep only the inputs of its layers; return a function that undoes it.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).

    Raises:
        UsageError: there is no transformer, or none with layers.
    """
    models = list(transformers_of(module))
    endings = [ending for model in models if (ending := _by_transformers(model)) is not None]
    lists = [part for model in models for part in model.modules() if isinstance(part, nn.ModuleList)]
    alike = [part for part in lists if len(part) > 1 and len({type(layer) for layer in part}) == 1]
    endings = endings or [_layer_by_layer(stack) for stack in alike]
    if not endings:
        raise UsageError("gradient_checkpointing: this model has no transformer that can do it; turn it off")

    def end() -> None:
        for ending in endings:
            ending()

    return end


def transformers_of(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost models of transformers."""
    from transformers import PreTrainedModel

    if isinstance(module, PreTrainedModel):
        yield module
        return
    for part in module.children():
        yield from transformers_of(part)


def _by_transformers(model: Any) -> Off | None:
    """Use the checkpointing of transformers; return None for a model without it."""
    if not model.supports_gradient_checkpointing:
        return None
    name = "activation" if hasattr(model, "activation_checkpointing_disable") else "gradient"
    getattr(model, f"{name}_checkpointing_enable")(**{f"{name}_checkpointing_kwargs": {"use_reentrant": False}})
    ending: Off = getattr(model, f"{name}_checkpointing_disable")
    return ending


def _layer_by_layer(stack: nn.ModuleList) -> Off:
    """Make each layer recompute its activations in the backward pass, while it trains."""

    def again(layer: nn.Module, forward: Any, *arguments: Any, **named: Any) -> Any:
        if not layer.training:
            return forward(*arguments, **named)
        return checkpoint(forward, *arguments, use_reentrant=False, **named)

    layers: list[Any] = list(stack)
    for layer in layers:
        layer.forward = partial(again, layer, layer.forward)

    def end() -> None:
        for layer in layers:
            del layer.forward

    return end
