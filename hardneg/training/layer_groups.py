"""The weights of a model by depth, and the norms of their gradients: how far the loss reaches down."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

import torch
from torch import Tensor, nn

GROUPS = ("bottom", "middle", "top")

Groups = Mapping[str, Sequence[nn.Parameter]]


def layer_groups(module: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The weights that learn, each once, by thirds of the transformer's layers.

    Embeddings, and all that is made before the layers, belong to the bottom; what comes after them to the top. Each
    side of a twin is split by its own layers. A weight with a rate of its own is a group under its name. A model
    without a list of equal layers is one group, `all`; groups without weights are left out.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    stacks, begun = dict(_stacks(module)), set[str]()
    found: dict[str, list[nn.Parameter]] = {name: [] for name in GROUPS}
    for name, weights in module.named_parameters():
        begun |= {path for path in stacks if name.startswith(path)}
        if hasattr(weights, "factor"):
            group = name
        elif not stacks:
            group = "all"
        else:
            group = GROUPS[_third(name, stacks, begun)]
        if weights.requires_grad:
            found.setdefault(group, []).append(weights)
    return {name: group for name, group in found.items() if group}


def gradient_norms(groups: Groups) -> dict[str, float]:
    """The 2-norm of each group's gradients as they are now, computed in float32 or better; 0 where there are none."""
    gradients = {
        name: [weights.grad for weights in group if weights.grad is not None] for name, group in groups.items()
    }
    measured = {name: _norm(tensors) for name, tensors in gradients.items() if tensors}
    values = torch.stack(list(measured.values())).tolist() if measured else []
    return {**dict.fromkeys(groups, 0.0), **dict(zip(measured, values, strict=True))}


def _norm(tensors: list[Tensor]) -> Tensor:
    precise = torch.promote_types(tensors[0].dtype, torch.float32)
    each: Sequence[Tensor] = torch._foreach_norm(tensors, 2, dtype=precise)
    total: Tensor = torch.linalg.vector_norm(torch.stack(list(each)))
    return total


def _stacks(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The path and the length of each outermost list of layers of one kind."""
    for name, child in module.named_children():
        path = f"{prefix}{name}."
        if isinstance(child, nn.ModuleList) and len(child) > 1 and len({type(layer) for layer in child}) == 1:
            yield path, len(child)
        else:
            yield from _stacks(child, path)


def _third(name: str, stacks: Mapping[str, int], begun: set[str]) -> int:
    """0, 1 or 2: by the middle of a layer's place; others by whether the nearest layers have begun."""
    for path, count in stacks.items():
        if name.startswith(path):
            layer = int(name[len(path) :].split(".")[0])
            return (2 * layer + 1) * len(GROUPS) // (2 * count)
    nearest = max(stacks, key=lambda path: _shared(name.split("."), path.split(".")))
    return len(GROUPS) - 1 if nearest in begun else 0


def _shared(name: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two names share from the left."""
    return sum(1 for _ in takewhile(lambda parts: parts[0] == parts[1], zip(name, other, strict=False)))
