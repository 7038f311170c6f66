"""The trainer's callback: the steps of refreshes, and their metrics in its log; indices that carry their refresh."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import BatchSampler
from transformers import TrainerCallback

from hardneg.doors.trainer.refresher import Refresher
from hardneg.records.errors import TrainingError


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
        if hasattr(self.held, "set_epoch"):
            self.held.set_epoch(epoch)

    @property
    def sampler(self) -> Any:
        """The sampler of the batch sampler; accelerate replaces it by a seeded one."""
        return self.held.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.held.sampler = sampler


_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class RefreshCallback(TrainerCallback):  # type: ignore[misc]
    """Refreshes negatives by the schedule; the training waits meanwhile."""

    def __init__(self, trainer: Any, refresher: Refresher, schedule: RefreshSchedule) -> None:
        self._trainer, self._refresher, self._schedule = trainer, refresher, schedule
        self._steps_an_epoch, self._epochs, self._begun = 1, 0, False

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the first refresh, unless the resumed run has it.

        Raises:
            TrainingError: what a resumed run used at its checkpoint is gone, or its rows would come in another order.
        """
        step, schedule = state.global_step, self._schedule
        if step and args.ignore_data_skip:
            raise TrainingError("ignore_data_skip: leave it out, or rows get the negatives of other steps")
        batches = len(self._trainer.callback_handler.train_dataloader)
        self._steps_an_epoch = max(1, -(-batches // args.gradient_accumulation_steps))
        accelerator = self._trainer.accelerator
        processes = 1 if accelerator.split_batches else accelerator.num_processes
        schedule.batches_a_step = args.gradient_accumulation_steps * processes
        self._epochs, self._begun = step // self._steps_an_epoch, False
        schedule.first_step = step - step % self._steps_an_epoch
        self._refresher.begin(step)
        for number in () if schedule.every is None else sorted({schedule.number_at(step), step // schedule.every}):
            self._ensure(number, number * schedule.every, step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refresh of this epoch, where each epoch has one."""
        schedule, step = self._schedule, state.global_step
        schedule.epoch = self._epochs
        if self._begun:
            schedule.first_step = step
        self._epochs, self._begun = self._epochs + 1, True
        if schedule.every is None:
            self._ensure(schedule.epoch, schedule.first_step, step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refresh that is due at this step; none after the last step."""
        every = self._schedule.every
        if every is not None and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._make(state.global_step // every, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """No worker waits any longer."""
        self._refresher.end()

    def _ensure(self, number: int, mined_at: int, step: int) -> None:
        """Makes a refresh that is not there; `mined_at` is the step of the model that mines it."""
        if self._refresher.has(number):
            return
        if mined_at != step:
            folder = self._refresher.refreshes.folder
            reason = (
                f"refresh {number}, which step {step + 1} is trained on, is gone, and so is the model that mined it"
            )
            raise TrainingError(f"{folder}: {reason}: resume from a checkpoint of step {mined_at}, or start afresh")
        self._make(number, step)

    def _make(self, number: int, step: int) -> None:
        trainer = self._trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        metrics = self._refresher.refresh(model, number, step, self._oldest(step))
        due = trainer.control.should_log
        trainer.log(metrics)
        trainer.control.should_log = due  # this line stands beside the step's own, not in its place

    def _oldest(self, step: int) -> int:
        """The first refresh that this epoch or a checkpoint may still ask for."""
        folder = Path(self._trainer.args.output_dir)
        matches = (_CHECKPOINT.fullmatch(path.name) for path in folder.glob("checkpoint-*"))
        steps = [int(match[1]) for match in matches if match]
        firsts = [each - each % self._steps_an_epoch for each in steps]
        if self._schedule.every is None:
            return min([self._schedule.epoch, *(first // self._steps_an_epoch for first in firsts)])
        return min([self._schedule.first_step, *firsts]) // self._schedule.every
