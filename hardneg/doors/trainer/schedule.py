"""Which refresh a batch is of: a function of the step it is used at, whoever fetches it and how far ahead."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import BatchSampler


@dataclass
class RefreshSchedule:
    """The steps at which refreshes are mined and used.

    Refresh n is mined by the model after n * `every` steps, or as epoch n begins. The batch of a step has been fetched
    before the step in front of it ends: the trainer reads one batch ahead, with or without workers. So a refresh is
    used from the second step after it, or from the first one of an epoch.

    every: steps between refreshes; None makes one each epoch. batches_a_step: those of all processes and of gradient
    accumulation. epoch: the one that is read. first_step: how many steps there were before it.
    """

    every: int | None
    batches_a_step: int = 1
    epoch: int = 0
    first_step: int = 0

    def number(self, batch: int) -> int:
        """The refresh of a batch, counted from 0 in its epoch."""
        return self.number_at(self.first_step + batch // self.batches_a_step)

    def number_at(self, step: int) -> int:
        """The refresh that is used when there have been so many steps."""
        return self.epoch if self.every is None else max(step - 1, self.first_step) // self.every


class CarryingBatchSampler(BatchSampler):
    """The trainer's own batch sampler, whose indices carry the number of their refresh: row + number * rows.

    Its attributes, such as a seeded sampler, are those of the sampler that it holds.
    """

    def __init__(self, held: Any, schedule: RefreshSchedule, rows: int) -> None:
        self.held, self.schedule, self.rows = held, schedule, rows
        self.batch_size, self.drop_last = held.batch_size, held.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        parts: tuple[Any, ...] = (self.held, getattr(self.held, "sampler", None))
        for part in parts:
            if hasattr(part, "set_epoch"):  # the trainer does not reach it where a resumed run skips what it has seen
                part.set_epoch(self.schedule.epoch)
        for batch, indices in enumerate(self.held):
            offset = self.schedule.number(batch) * self.rows
            yield [index + offset for index in indices]

    def __len__(self) -> int:
        return len(self.held)

    def set_epoch(self, epoch: int) -> None:
        """Passes it on."""
        if hasattr(self.held, "set_epoch"):
            self.held.set_epoch(epoch)

    @property
    def sampler(self) -> Any:
        """The sampler of the batch sampler; accelerate replaces it by a seeded one."""
        return self.held.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.held.sampler = sampler
