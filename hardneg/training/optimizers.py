"""The weights that learn: in groups, updated by an optimizer, at a rate over time."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.training.options import LearningOptions


class Lamb(torch.optim.Optimizer):
    """Adam with each tensor's step scaled to the norm of its weights; without bias correction.

    Source: You et al., Large Batch Optimization for Deep Learning (ICLR 2020), Algorithm 2; the cut
    of the weights' norm at 10 and the missing bias correction are those of ANCE's and STAR's programs.

    Args:
        params: tensors or groups of them.
        lr: learning rate.
        betas: decay of the first and second moments.
        eps: added to the second moment's root.
        weight_decay: added to the step, times the weights, before its norm is taken.
    """

    largest_norm = 10.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all tensors that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._update(weights, weights.grad, group)
        return loss

    def _update(self, weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:
            state["exp_avg"] = torch.zeros_like(weights)
            state["exp_avg_sq"] = torch.zeros_like(weights)
        first, second = group["betas"]
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        step = mean / (square.sqrt() + group["eps"])
        if group["weight_decay"]:
            step.add_(weights, alpha=group["weight_decay"])
        size, length = weights.norm().clamp(max=self.largest_norm), step.norm()
        trust = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
        weights.sub_(step * (trust * group["lr"]))


def make_optimizer(module: nn.Module, options: LearningOptions) -> torch.optim.Optimizer:
    """The optimizer of `options` over the weights that learn; biases and LayerNorm weights do not decay.

    A weight with an attribute `factor` does not decay either, and learns at so many times the rate of the others.
    """
    exempt = {
        id(weights)
        for part in module.modules()
        for name, weights in part.named_parameters(recurse=False)
        if name == "bias" or "norm" in type(part).__name__.lower()
    }
    learning = [weights for weights in module.parameters() if weights.requires_grad and not hasattr(weights, "factor")]
    decayed = [weights for weights in learning if id(weights) not in exempt]
    free = [weights for weights in learning if id(weights) in exempt]
    paced = [weights for weights in module.parameters() if hasattr(weights, "factor")]
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": options.weight_decay}]
    groups += [{"params": free, "weight_decay": 0.0}]
    groups += [{"params": [weights], "weight_decay": 0.0, "factor": weights.factor} for weights in paced]
    groups = [group for group in groups if group["params"]]
    if options.optimizer == "lamb":
        return Lamb(groups, lr=options.learning_rate, eps=options.epsilon)
    tensors = [weights for group in groups for weights in group["params"]]
    fusible = all(weights.device.type in ("cpu", "cuda") and weights.is_floating_point() for weights in tensors)
    fused = True if fusible else None  # one kernel for a whole update, or as torch decides
    return torch.optim.AdamW(groups, lr=options.learning_rate, eps=options.epsilon, fused=fused)


def schedule_factor(step: int, total: int, options: LearningOptions) -> float:
    """The factor for a step counted from 0: it rises to 1 at the warm-up's end, then falls to 0 at `total`."""
    steps = options.warmup_steps
    warmup = math.ceil(options.warmup_ratio * total) if steps is None else steps
    if step < warmup:
        return step / warmup if options.warmup_from_zero else (step + 1) / (warmup + 1)
    if options.decay == "constant":
        return 1.0
    began = 0 if options.decay_from_start else warmup
    left = max(0.0, (total - step) / max(1, total - began))
    return left if options.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)


GROUPS = ("bottom", "middle", "top")

Groups = Mapping[str, Sequence[nn.Parameter]]


def layer_groups(module: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The weights that learn, each once, by thirds of the transformer's layers.

    Embeddings and other modules before the layers belong to the bottom, those after them to the top. Each
    side of a twin is split by its own layers. A weight with a rate of its own is a group under its name. A model
    without a list of equal layers is one group, `all`; groups without weights are left out.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    layered, begun = dict(stacks(module)), set[str]()
    grouped: dict[str, list[nn.Parameter]] = {name: [] for name in GROUPS}
    for name, weights in module.named_parameters():
        begun |= {path for path in layered if name.startswith(path)}
        if hasattr(weights, "factor"):
            group = name
        elif not layered:
            group = "all"
        else:
            group = GROUPS[_third(name, layered, begun)]
        if weights.requires_grad:
            grouped.setdefault(group, []).append(weights)
    return {name: group for name, group in grouped.items() if group}


def gradient_norms(groups: Groups) -> dict[str, Tensor | float]:
    """The 2-norm of each group's gradients as they are now, a scalar in float32 or better; 0 where there are none."""
    norms: dict[str, Tensor | float] = {}
    for name, group in groups.items():
        tensors = [weights.grad for weights in group if weights.grad is not None]
        if tensors:
            precise = torch.promote_types(tensors[0].dtype, torch.float32)
            each: Sequence[Tensor] = torch._foreach_norm(tensors, 2, dtype=precise)
        norms[name] = torch.linalg.vector_norm(torch.stack(list(each))) if tensors else 0.0
    return norms


def stacks(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the path, with a final dot, and the length of each outermost list of layers of one class."""
    for name, child in module.named_children():
        path = f"{prefix}{name}."
        if isinstance(child, nn.ModuleList) and len(child) > 1 and len({type(layer) for layer in child}) == 1:
            yield path, len(child)
        else:
            yield from stacks(child, path)


def _third(name: str, stacks: Mapping[str, int], begun: set[str]) -> int:
    """0, 1 or 2: by the middle of a layer's place; others by whether the nearest layers have begun."""
    for path, count in stacks.items():
        if name.startswith(path):
            layer = int(name[len(path) :].split(".")[0])
            return (2 * layer + 1) * len(GROUPS) // (2 * count)

    def shared(path: str) -> int:
        pairs = zip(name.split("."), path.split("."), strict=False)
        return sum(1 for _ in takewhile(lambda parts: parts[0] == parts[1], pairs))

    nearest = max(stacks, key=shared)
    return len(GROUPS) - 1 if nearest in begun else 0
