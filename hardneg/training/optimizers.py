"""The optimizers: AdamW from torch, and LAMB."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.training.options import TrainOptions


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


def make_optimizer(module: nn.Module, options: TrainOptions) -> torch.optim.Optimizer:
    """The optimizer of `options` over the weights that learn; biases and LayerNorm weights do not decay.

    A weight with an attribute `factor` does not decay either, and learns at so many times the rate of the others.
    """
    decayed, free = decay_groups(module)
    paced = [weights for weights in module.parameters() if hasattr(weights, "factor")]
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": options.weight_decay}]
    groups += [{"params": free, "weight_decay": 0.0}]
    groups += [{"params": [weights], "weight_decay": 0.0, "factor": weights.factor} for weights in paced]
    groups = [group for group in groups if group["params"]]
    if options.optimizer == "lamb":
        return Lamb(groups, lr=options.learning_rate, eps=options.epsilon)
    return torch.optim.AdamW(groups, lr=options.learning_rate, eps=options.epsilon)


def decay_groups(module: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The learning weights of `module`, each once: those that decay, and biases and LayerNorm weights.

    Weights with a rate of their own are in neither.
    """
    exempt = {
        id(weights)
        for part in module.modules()
        for name, weights in part.named_parameters(recurse=False)
        if name == "bias" or "norm" in type(part).__name__.lower()
    }
    learning = [weights for weights in module.parameters() if weights.requires_grad and not hasattr(weights, "factor")]
    decayed = [weights for weights in learning if id(weights) not in exempt]
    return decayed, [weights for weights in learning if id(weights) in exempt]
