"""One update of the weights."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hardneg.distributed import gather, world
from hardneg.errors import TrainingError
from hardneg.seeding import derive_seed
from hardneg.training.method import Minimised, Objective, TrainingMethod
from hardneg.training.optimizers import Groups, gradient_norms
from hardneg.training.options import TrainOptions

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True, slots=True)
class Learner:
    """All that an update needs; half: whether the transformer runs in bfloat16; groups: those with a norm each."""

    accelerator: "Accelerator"
    method: TrainingMethod
    model: Any
    optimizer: Any
    loss: Objective
    options: TrainOptions
    half: bool
    groups: Groups


@dataclass(frozen=True, slots=True)
class Update:
    """What one update was.

    record: means over its batches: `loss`, `penalty` where there is one, and what else a method notes. gradient_norms:
    before clipping, by group.
    """

    record: Mapping[str, float]
    gradient_norm: float
    gradient_norms: Mapping[str, float]


def update(learner: Learner, batches: Sequence[Any], step: int, learning_rate: float) -> Update:
    """Takes one step, counted from 0, over batches that are scored one by one.

    Dropout depends on the seed, the step and the batch's place in it, so a continued run repeats it; each of
    several processes has its own.

    Raises:
        TrainingError: the loss or the gradient is not finite.
    """
    model, accelerator, here = learner.model, learner.accelerator, world()
    process = [] if here.first else [here.rank]
    done = step / learner.options.total_steps(len(learner.method))
    records = []
    for place, batch in enumerate(batches):
        torch.manual_seed(derive_seed(learner.options.seed, "dropout", step, place, *process))
        last = place == len(batches) - 1
        with nullcontext() if last else accelerator.no_sync(model):
            found = learner.method.minimised(learner.loss, model, batch, learner.half, done)
            records.append(_record(found, learner.options))
            for name, value in records[-1].items():
                _check_finite(name, value, step, [batch])
            accelerator.backward(found.total / len(batches))
    norms = gradient_norms(learner.groups)
    limit = learner.options.clip_norm or math.inf
    norm = float(accelerator.clip_grad_norm_(model.parameters(), limit))
    _check_finite("norm of the gradient", norm, step, batches)
    for group in learner.optimizer.param_groups:
        group["lr"] = learning_rate * group.get("factor", 1.0)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    means = {name: sum(record[name] for record in records) / len(records) for name in records[0]}
    return Update(means, norm, norms)


def _record(found: Minimised, options: TrainOptions) -> dict[str, float]:
    penalty = {} if found.penalty is None else {"penalty": _value(found.penalty.detach(), options)}
    return {"loss": _value(found.loss.detach(), options), **penalty, **found.noted}


def _value(loss: Tensor, options: TrainOptions) -> float:
    """The loss, or the mean of all processes' losses where each has its own."""
    shared = options.share_negatives_across == "processes"
    return float(loss if shared else gather(loss.reshape(1, 1), world().size).mean())


def _check_finite(what: str, value: float, step: int, batches: Sequence[Any]) -> None:
    if math.isfinite(value):
        return
    query_ids = [query_id for batch in batches for query_id in batch.query_ids]
    more = f" and {len(query_ids) - 10} more" if len(query_ids) > 10 else ""
    raise TrainingError(
        f"step {step + 1}: the {what} is {value}, with queries {', '.join(query_ids[:10])}{more}: "
        "lower the learning rate, or train with precision fp32"
    )
