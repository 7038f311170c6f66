"""The trainer's callback: the steps of refreshes, and their metrics in its log."""

import re
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from hardneg.doors.trainer.refresher import Refresher
from hardneg.doors.trainer.schedule import RefreshSchedule
from hardneg.records.errors import TrainingError

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
