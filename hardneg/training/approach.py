"""What the loop asks of a way to train: whose weights learn, from which batches, and how a batch is scored."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import nn

from hardneg.models.encoder import Encoder
from hardneg.training.history import Record
from hardneg.types import ScoreBatch


class Approach(Protocol):
    """One way to train an encoder.

    encoder: the one that learns. learner: the module whose weights do, as checkpoints hold them. tower: what makes a
    batch's vectors, in one forward pass a batch. skipped: how much could not be learnt from, by reason.
    pause: steps between calls of `prepare`, at each of which there is a checkpoint; None means at the start only.
    """

    @property
    def encoder(self) -> Encoder: ...

    @property
    def learner(self) -> nn.Module: ...

    @property
    def tower(self) -> nn.Module: ...

    @property
    def skipped(self) -> Mapping[str, int]: ...

    @property
    def pause(self) -> int | None: ...

    def __len__(self) -> int:
        """How many queries an epoch has."""
        ...

    def digest(self) -> str:
        """A name for all that is learnt from, besides the start weights, the loss and the options."""
        ...

    def prepare(self, step: int) -> None:
        """Called before training starts or goes on at a step; what it makes is a function of the weights there."""
        ...

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        """Batches of `size` queries, each with its `query_ids`, from these positions of the endless order."""
        ...

    def scores(self, model: Any, batch: Any, half: bool) -> ScoreBatch:
        """A batch's scores by `model`, the tower as accelerate has wrapped it; half: in bfloat16 where it can be."""
        ...

    def look(self, step: int) -> Record:
        """What a step's record tells besides the loss, after this many steps; empty where it is not time to look."""
        ...
