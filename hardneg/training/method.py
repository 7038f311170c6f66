"""The interface of a training method: whose weights learn, from which batches, and how a batch is scored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from hardneg.training.batches import ahead
from hardneg.training.examples import SampledBatch
from hardneg.training.history import Record
from hardneg.training.sources import AnyExamples


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


@dataclass(frozen=True, slots=True)
class Minimised:
    """The terms that an update minimises: the sum of a loss and a penalty, scalars with gradients.

    penalty: a regularizer's; None without one. noted: other values for the step's record.
    """

    loss: Tensor
    penalty: Tensor | None = None
    noted: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        """The sum."""
        return self.loss if self.penalty is None else self.loss + self.penalty


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
        """None: nothing is refreshed."""
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

    def minimised(self, loss: Objective, model: Any, batch: Any, half: bool, done: float) -> Minimised:
        """Return the terms to minimise: the loss of a batch's `scores`, and what the method adds.

        done: the share of finished steps, from 0 to below 1.
        """
        return Minimised(loss(self.scores(model, batch, half)))

    def log_metrics(self, step: int) -> Record:
        """Return values for the record after so many steps, besides the loss; empty where none are due."""
        return {}
