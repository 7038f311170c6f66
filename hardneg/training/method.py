"""What the loop asks of a way to train: whose weights learn, from which batches, and how a batch is scored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from hardneg.training.batches import ahead
from hardneg.training.examples import Examples, SampledBatch
from hardneg.training.history import Record


class Network(Protocol):
    """What learns, and where: an encoder, or another network around a transformer."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def device(self) -> torch.device: ...

    def save(self, folder: Path, card: str) -> None:
        """Writes a folder that opens as a model, whole or not at all."""


class Objective(Protocol):
    """What a method's scores are judged by: a loss of score matrices, or what else fits its scores."""

    version: ClassVar[int]

    def __call__(self, batch: Any) -> Tensor:
        """A scalar."""


@dataclass(frozen=True, slots=True)
class Minimised:
    """What a batch gives an update to minimise: the sum of a loss and a penalty, scalars with gradients.

    penalty: a regularizer's; None where there is none. noted: what else the step's record tells of the batch.
    """

    loss: Tensor
    penalty: Tensor | None = None
    noted: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        """The sum."""
        return self.loss if self.penalty is None else self.loss + self.penalty


class TrainingMethod(Protocol):
    """One way to train a network.

    encoder: the one that learns. trainable: the module whose weights do, as checkpoints hold them.
    forward_module: what makes a batch's vectors, in one forward pass a batch. skipped: how much could not be learnt
    from, by reason. refresh_interval: steps between calls of `prepare`, at each of which there is a checkpoint; None
    means at the start only.
    """

    @property
    def encoder(self) -> Network: ...

    @property
    def trainable(self) -> nn.Module: ...

    @property
    def forward_module(self) -> nn.Module: ...

    @property
    def skipped(self) -> Mapping[str, int]: ...

    @property
    def refresh_interval(self) -> int | None: ...

    def __len__(self) -> int:
        """How many queries an epoch has."""

    def digest(self) -> str:
        """A name for all that is learnt from, besides the start weights, the loss and the options."""

    def prepare(self, step: int) -> None:
        """Called before training starts or goes on at a step; what it makes is a function of the weights there."""

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        """Batches of `size` queries, each with its `query_ids`, from these positions of the endless order."""

    def scores(self, model: Any, batch: Any, half: bool) -> Any:
        """What the loss looks at, such as a `ScoreBatch`.

        model: `forward_module` as accelerate has wrapped it. half: in bfloat16 where it can be.
        """

    def minimised(self, loss: Objective, model: Any, batch: Any, half: bool, done: float) -> Minimised:
        """What a batch gives to minimise: the loss of its `scores`, with all that the method adds.

        done: which part of the steps is over, from 0 to below 1.
        """

    def log_metrics(self, step: int) -> Record:
        """What a step's record tells besides the loss, after this many steps; empty where it is not time to look."""


class ExampleTraining:
    """What the methods share whose batches are drawn from `Examples`: draws that depend on the seed alone."""

    examples: Examples

    @property
    def refresh_interval(self) -> int | None:
        """None: nothing is made again."""
        return None

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many queries and positives were left out, by reason."""
        return self.examples.skipped

    def __len__(self) -> int:
        return len(self.examples)

    def digest(self) -> str:
        """That of the examples."""
        return self.examples.digest()

    def prepare(self, step: int) -> None:
        """Nothing is to be made."""

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        """The drawn examples, tokenised one batch ahead."""
        return ahead(lambda start: self.make(self.examples.draw(start, size)), starts)

    def scores(self, model: Any, batch: Any, half: bool) -> Any:
        """What the loss looks at."""
        raise NotImplementedError

    def minimised(self, loss: Objective, model: Any, batch: Any, half: bool, done: float) -> Minimised:
        """The loss of the scores alone."""
        return Minimised(loss(self.scores(model, batch, half)))

    def make(self, drawn: SampledBatch) -> Any:
        """The batch of what was drawn."""
        raise NotImplementedError

    def log_metrics(self, step: int) -> Record:
        """Nothing besides the loss."""
        return {}
