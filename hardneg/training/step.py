"""One update of the weights."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hardneg.runtime.distributed import gather, world
from hardneg.runtime.seeding import derive_seed
from hardneg.training.dropout import dropout_of
from hardneg.training.method import Objective, TrainingMethod
from hardneg.training.optimizers import Groups, gradient_norms
from hardneg.training.options import LearningOptions
from hardneg.training.step_values import TakenStep

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True, slots=True)
class Learner:
    """The state of an update; half: whether the transformer runs in bfloat16; groups: those with a norm each."""

    accelerator: "Accelerator"
    method: TrainingMethod
    model: Any
    optimizer: Any
    loss: Objective
    options: LearningOptions
    half: bool
    groups: Groups


def update(learner: Learner, batches: Sequence[Any], step: int, learning_rate: float) -> TakenStep:
    """Take one step, counted from 0, over batches that are scored one by one; its values are read later.

    Dropout depends on the seed, the step and the batch's number in it, so a resumed run repeats it; each of
    several processes has its own.
    """
    model, accelerator, here = learner.model, learner.accelerator, world()
    process = [] if here.first else [here.rank]
    done = step / learner.options.total_steps(len(learner.method))
    records: list[dict[str, Tensor | float]] = []
    for number, batch in enumerate(batches):
        torch.manual_seed(derive_seed(learner.options.seed, "dropout", step, number, *process))
        last = number == len(batches) - 1
        with nullcontext() if last else accelerator.no_sync(model):
            with dropout_of(learner.options, learner.method.encoder.device):
                minimised = learner.method.minimised(learner.loss, model, batch, learner.half, done)
            penalty = (
                {} if minimised.penalty is None else {"penalty": _value(minimised.penalty.detach(), learner.options)}
            )
            records.append({"loss": _value(minimised.loss.detach(), learner.options), **penalty, **minimised.noted})
            accelerator.backward(minimised.total / len(batches))
    norms = gradient_norms(learner.groups)
    norm = accelerator.clip_grad_norm_(model.parameters(), learner.options.clip_norm or math.inf)
    for group in learner.optimizer.param_groups:
        group["lr"] = learning_rate * group.get("factor", 1.0)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    return TakenStep(step + 1, [batch.query_ids for batch in batches], records, norm, norms)


def _value(loss: Tensor, options: LearningOptions) -> Tensor:
    """The loss, or the mean of all processes' losses where each has its own."""
    return gather(loss.reshape(1, 1), world().size).mean() if options.each_has_its_loss else loss
