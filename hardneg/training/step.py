"""A training method's interface, and one update by it, with its losses and norms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from hardneg.records import TrainingError
from hardneg.runtime import derive_seed, world
from hardneg.training.batches import ahead
from hardneg.training.examples import SampledBatch
from hardneg.training.history import Record
from hardneg.training.optimizers import Groups, gradient_norms
from hardneg.training.options import LearningOptions
from hardneg.training.sources import AnyExamples

if TYPE_CHECKING:
    from accelerate import Accelerator


class Network(Protocol):
    """What learns, and where: an encoder, or another network around a transformer."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def device(self) -> torch.device: ...

    def save(self, folder: Path, card: str) -> None:
        """Writes a folder that opens as a model, whole or not at all."""


class Objective(Protocol):
    """A loss of score matrices, or of another form of scores that fits the method."""

    version: ClassVar[int]

    def __call__(self, batch: Any) -> Tensor:
        """A scalar."""


class ExampleTraining:
    """One way to train a network; here one that draws batches from examples: draws depend on the seed alone.

    encoder: the network that learns. trainable: the module whose weights do, as checkpoints hold them.
    forward_module: what makes a batch's vectors, in one forward pass a batch. refresh_interval: steps between calls of
    `prepare`, at each of which there is a checkpoint; None means at the start only.
    """

    examples: AnyExamples
    encoder: Any
    trainable: Any
    forward_module: Any

    @property
    def refresh_interval(self) -> int | None:
        return None

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many queries and positives were left out, by reason."""
        return self.examples.skipped

    def __len__(self) -> int:
        return len(self.examples)

    def digest(self) -> str:
        """A digest of the training data and method, without the start weights, the loss and the options."""
        return self.examples.digest()

    def prepare(self, step: int) -> None:
        """Called before training starts or continues at a step; its result is a function of the weights there."""

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        """Batches of `size` queries, each with its `query_ids`, from these positions; tokenised one batch ahead."""
        return ahead(lambda start: self.make(self.examples.draw(start, size)), starts)

    def make(self, drawn: SampledBatch) -> Any:
        """The batch of what was drawn."""
        raise NotImplementedError

    def scores(self, model: Any, batch: Any, half: bool) -> Any:
        """Return the input of the loss, such as a `ScoreBatch`.

        model: `forward_module` as accelerate has wrapped it. half: in bfloat16 where it can be.
        """
        raise NotImplementedError

    def minimised(
        self, loss: Objective, model: Any, batch: Any, half: bool, done: float
    ) -> tuple[Tensor, Tensor | None]:
        """Return the terms to minimise: the loss of a batch's `scores`, and a penalty where the method adds one.

        done: the share of finished steps, from 0 to below 1.
        """
        return loss(self.scores(model, batch, half)), None

    def log_metrics(self, step: int) -> Record:
        """Return values for the record after so many steps, besides the loss; empty where none are due."""
        return {}


_AHEAD = {"cuda": 16}  # steps queued on a device before the first is read; others are read at once


@dataclass(frozen=True, slots=True)
class TakenStep:
    """The values of one update, not yet read.

    number: counted from 1. query_ids: of each of its batches. batches: each batch's figures, such as its `loss`, by
    name, numbers or scalars on the device. norm: of all gradients before clipping; norms: by group of layers.
    """

    number: int
    query_ids: Sequence[Sequence[str]]
    batches: Sequence[Mapping[str, Tensor | float]]
    norm: Tensor
    norms: Mapping[str, Tensor | float]


class Unread:
    """The steps whose values have not been read."""

    def __init__(self, device: torch.device) -> None:
        self._most = _AHEAD.get(device.type, 1)
        self._steps: list[tuple[TakenStep, Record, Record]] = []

    def add(self, step: TakenStep, before: Record, after: Record) -> bool:
        """Keeps a step with what its record has before the norms and after them; true where it is time to read."""
        self._steps.append((step, before, after))
        return len(self._steps) >= self._most

    def read(self) -> Iterator[Record]:
        """The record of each step in order, all read at once; no step stays.

        A record has the `step`, means over its batches (`loss`, and `penalty` where there is one),
        what else was added, `gradient_norm` and `gradient_norms`.

        Raises:
            TrainingError: a loss or a gradient is not finite; names the first such step.
        """
        steps, self._steps = self._steps, []
        parts = [part for step, _, _ in steps for part in (*step.batches, {"": step.norm}, step.norms)]
        figures = [figure for part in parts for figure in part.values()]
        tensors = [figure.detach().reshape(()) for figure in figures if isinstance(figure, Tensor)]
        fetched = iter(torch.stack(tensors).tolist() if tensors else [])  # those of the device together
        values = iter([next(fetched) if isinstance(each, Tensor) else float(each) for each in figures])
        for step, before, after in steps:
            batches = [{name: next(values) for name in batch} for batch in step.batches]
            norm, norms = next(values), {name: next(values) for name in step.norms}
            for batch, query_ids in zip(batches, step.query_ids, strict=True):
                for name, value in batch.items():
                    _check(name, value, step.number, query_ids)
            _check("norm of the gradient", norm, step.number, [each for ids in step.query_ids for each in ids])
            means = {name: sum(batch[name] for batch in batches) / len(batches) for name in batches[0]}
            yield {"step": step.number, **means, **before, "gradient_norm": norm, "gradient_norms": norms, **after}


def _check(what: str, value: float, number: int, query_ids: Sequence[str]) -> None:
    if not math.isfinite(value):
        more = f" and {len(query_ids) - 10} more" if len(query_ids) > 10 else ""
        whose = f"the {what} is {value}, with queries {', '.join(query_ids[:10])}{more}"
        raise TrainingError(f"step {number}: {whose}: lower the learning rate, or train with precision fp32")


@dataclass(frozen=True, slots=True)
class Learner:
    """The state of an update; half: whether the transformer runs in bfloat16; groups: those with a norm each."""

    accelerator: "Accelerator"
    method: ExampleTraining
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
            loss, penalty = learner.method.minimised(learner.loss, model, batch, learner.half, done)
            records.append({"loss": loss.detach(), **({} if penalty is None else {"penalty": penalty.detach()})})
            accelerator.backward((loss if penalty is None else loss + penalty) / len(batches))
    norms = gradient_norms(learner.groups)
    norm = accelerator.clip_grad_norm_(model.parameters(), learner.options.clip_norm or math.inf)
    for group in learner.optimizer.param_groups:
        group["lr"] = learning_rate * group.get("factor", 1.0)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    return TakenStep(step + 1, [batch.query_ids for batch in batches], records, norm, norms)
