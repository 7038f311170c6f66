"""The learning rate over time, as a factor of its peak."""

import math
from typing import Literal

from hardneg.training.options import TrainOptions

Decay = Literal["linear", "cosine", "constant"]


def warmup_length(options: TrainOptions, total: int) -> int:
    """How many steps of `total` the learning rate rises."""
    if options.warmup_steps is not None:
        return options.warmup_steps
    return math.ceil(options.warmup_ratio * total)


def schedule_factor(step: int, warmup: int, total: int, decay: Decay) -> float:
    """The factor for a step counted from 0: it rises to 1 at step `warmup`, then falls to 0 at `total`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if decay == "constant":
        return 1.0
    left = max(0.0, (total - step) / max(1, total - warmup))
    return left if decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)
