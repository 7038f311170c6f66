"""The training loop for all methods and losses. A run that is killed at any point resumes and gives the same result."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardneg.encoders.towers import takes_bf16
from hardneg.records import HISTORY, TrainingError, UsageError, counted
from hardneg.runtime import Progress, Silent, Task, barrier, check_settings, from_first, join, world
from hardneg.runtime.devices import float32_products
from hardneg.store import EARLIER, KEPT, SCRATCH, digest, noted, options_in_key, replace_text
from hardneg.training import step as steps
from hardneg.training.checkpoint import Checkpoints, History, Record, TrainState, forget_saved, weights_digest
from hardneg.training.options import LearningOptions
from hardneg.training.step import update

Validate = Callable[[], Mapping[str, float]]
CHECKPOINT_SECONDS = 300.0
"""Maximum number of seconds between checkpoints, and thus of work lost when a run is killed."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training run.

    history: one record per step, as in `hardneg.training.step.records`, and one per validation, with `step` and the
    metrics `dev`. steps: number of finished steps. best, best_step: the best dev metric, if measured, and its step.
    skipped: numbers of skipped queries and positives, by reason. earlier: seconds spent by interrupted runs up to the
    checkpoint that this run resumed from.
    """

    history: list[Record]
    steps: int
    best_step: int | None
    best: float | None
    skipped: Mapping[str, int]
    earlier: float = 0.0

    def facts(self, metric: str) -> dict[str, Any]:
        """Return facts for a manifest; metric: name of the dev metric that selected the best weights."""
        earlier = {EARLIER: round(self.earlier, 3)} if self.earlier else {}
        best = {} if self.best is None else {"best step": self.best_step, f"best dev {metric}": self.best}
        left_out = {f"left out: {reason}": count for reason, count in self.skipped.items()}
        return {"steps": self.steps, **earlier, **best, **left_out}


def learn(
    method: steps.ExampleTraining,
    loss: steps.Objective,
    options: LearningOptions,
    folder: Path,
    *,
    progress: Progress,
    validate: Validate | None = None,
) -> TrainingResult:
    """Train the method's encoder in place; keep the last weights or, with `validate` and `keep_best`, the best on dev.

    A call with the same arguments resumes from `history.jsonl` and `checkpoints/` in `folder`. On a CPU, the resulting
    weights equal those of an uninterrupted run bit for bit. Intermediate models are in `kept/`. In a distributed run,
    every process makes this call and trains on a share of each batch; the first one validates, reports and writes.

    Raises:
        UsageError: the options are invalid, or `validate` does not return the option `metric`.
        TrainingError: there is nothing to train on, a loss is not finite, or the checkpoints belong to another run.
    """
    check_options(options)
    if options.batch_size > 100 * len(method):
        few = f"{options.batch_size:,} would repeat each of {counted(len(method), 'query')} over 100 times per batch"
        raise UsageError(f"training options: batch_size {few}; lower batch_size")
    folder.mkdir(parents=True, exist_ok=True)
    progress = progress if world().rank == 0 else Silent()
    named = [type(loss).__qualname__, type(loss).version, options_in_key(loss) if is_dataclass(loss) else repr(loss)]
    identity = digest([weights_digest(method.trainable), named, options.identity(), method.digest()])
    checkpoints = Checkpoints(folder / SCRATCH, identity)
    with (
        float32_products(method.encoder.device, options.tf32),
        _learning(method.encoder, options),
        noted(checkpoints.choices()) as choices,
    ):
        accelerator = accelerated(method.encoder.device)
        # `evaluation_mode` keeps accelerate from wrapping it again
        model = accelerator.prepare_model(distributed(method.forward_module), evaluation_mode=True)
        optimizer = accelerator.prepare_optimizer(steps.make_optimizer(method.forward_module, options))
        half, groups = takes_bf16(options.precision, method.trainable, "training"), steps.layer_groups(method.trainable)
        learner = steps.Learner(accelerator, method, model, optimizer, loss, options, half, groups)
        run = _TrainingRun(learner, checkpoints, folder, validate, choices)
        state = run.train(progress)
        if options.keep_best and state.best_step not in (None, state.step):
            checkpoints.load_weights(method.trainable, state.best_step or 0)
        barrier()
        history = run.history.read()
        barrier()
    for reason, count in method.skipped.items():
        progress.note(f"training: skipped {count} {reason}")
    return TrainingResult(history, state.step, state.best_step, state.best, method.skipped, run.earlier)


def check_options(options: LearningOptions) -> None:
    """Raise UsageError with a list of all problems if the options are invalid."""
    if problems := options.problems():
        raise UsageError(f"training options: {'; '.join(problems)}")


class _TrainingRun:
    """The state of a call of `learn`; choices: settings chosen automatically for the device."""

    def __init__(
        self,
        learner: steps.Learner,
        checkpoints: Checkpoints,
        folder: Path,
        validate: Validate | None,
        choices: Mapping[str, str],
    ) -> None:
        self.learner, self.method, self.options = learner, learner.method, learner.options
        self.checkpoints, self.history, self.saved = checkpoints, History(folder / HISTORY), folder / KEPT
        self.validate, self.choices, self.started, self.earlier = validate, choices, time.monotonic(), 0.0
        self.total, self.last = self.options.total_steps(len(self.method)), self.options.last_step(len(self.method))

    def train(self, progress: Progress) -> TrainState:
        """Train from the newest checkpoint to the last step or until patience runs out."""
        state, options = self.checkpoints.restore(self.method.trainable, self.learner.optimizer), self.options
        if from_first(state.step) != state.step:
            raise TrainingError(
                f"{self.checkpoints.folder}: not visible to all processes; move the store to a shared disk"
            )
        with suppress(OSError, ValueError):  # the file may be missing or damaged
            seconds = float((self.checkpoints.folder / "seconds").read_text(encoding="ascii"))
            self.earlier = seconds if state.step and 0 < seconds < math.inf else 0.0
        barrier()
        evaluate_every = options.evaluate_every if self.validate else None
        intervals = [options.checkpoint_every, evaluate_every, self.method.refresh_interval, options.keep_every]
        if world().rank == 0:
            self.history.truncate(state.step or -1)
            forget_saved(self.saved, state.step)
        with progress.task("training", self.last, "steps", done=state.step) as task:
            while state.step < self.last and not state.stopped:
                # the next step with a refresh, an evaluation, a checkpoint or a model to save
                stops = [state.step - state.step % each + each for each in intervals if each is not None]
                stop = min([*stops, self.last])
                self._advance(state, stop, task)
                state = self._judge(replace(state, step=stop))
                if world().rank == 0:
                    if options.keep_every is not None and stop % options.keep_every == 0:
                        card = f"# After step {stop}\n\nIntermediate weights of a training run.\n"
                        self.method.encoder.save(self.saved / f"step-{stop}", card)
                    self._save(state)
        return state

    def _save(self, state: TrainState) -> None:
        self.history.sync()
        state = replace(state, choices=dict(self.choices))
        self.checkpoints.save(self.method.trainable, self.learner.optimizer, state)
        self._saved = time.monotonic()
        replace_text(self.checkpoints.folder / "seconds", f"{self.earlier + self._saved - self.started:.3f}\n")

    def _advance(self, state: TrainState, stop: int, task: Task) -> None:
        start, self._saved = state.step, time.monotonic()
        self.method.prepare(start)
        if not start and (seen := self.method.log_metrics(start)):
            self._add({"step": start, **seen})
        self.method.trainable.train()
        options, started, waiting = self.options, time.monotonic(), list[steps.TakenStep]()
        most = steps.AHEAD.get(self.method.encoder.device.type, 1)
        per_step = options.batch_size * options.accumulate
        starts = range(start * per_step, stop * per_step, options.batch_size)
        stream = self.method.batches(starts, options.batch_size)
        for step in range(start, stop):
            rate = options.learning_rate * steps.schedule_factor(step, self.total, options)
            waiting.append(update(self.learner, list(islice(stream, options.accumulate)), step, rate))
            task.advance()
            late = world().rank == 0 and step + 1 < stop and time.monotonic() - self._saved > CHECKPOINT_SECONDS
            if late or len(waiting) >= most or step + 1 == stop:
                for record in steps.records(waiting):
                    self._add(record)
                waiting = []
                speed = (step + 1 - start) * per_step / (time.monotonic() - started)
                task.describe(f"loss {record['loss']:.4f}, {speed:.1f} queries/s")
            if late:
                self._save(replace(state, step=step + 1))

    def _judge(self, state: TrainState) -> TrainState:
        every = self.options.evaluate_every
        if self.validate is None or not (state.step == self.last or (every and state.step % every == 0)):
            return state
        here = {name: float(value) for name, value in self.validate().items()} if world().rank == 0 else None
        metrics: dict[str, float] = dict(from_first(here))
        if self.options.metric not in metrics:
            known = ", ".join(metrics)
            raise UsageError(f"unknown dev metric {self.options.metric!r}; available: {known}")
        self._add({"step": state.step, "dev": metrics})
        value, misses, patience = metrics[self.options.metric], state.misses + 1, self.options.patience
        if state.best is None or value > state.best:
            return replace(state, best_step=state.step, best=value, misses=0)
        return replace(state, misses=misses, stopped=patience is not None and misses >= patience)

    def _add(self, record: Record) -> None:
        if world().rank == 0:
            self.history.add(record)


@contextmanager
def _learning(encoder: Any, options: LearningOptions) -> Iterator[None]:
    """Set up gradient checkpointing; afterwards undo it, restore torch's random state, and set evaluation mode."""
    devices = [encoder.device] if encoder.device.type == "cuda" else []
    try:
        with (
            gradient_checkpointing(encoder.module) if options.gradient_checkpointing else nullcontext(),
            torch.random.fork_rng(devices=devices),
        ):
            yield
    finally:
        encoder.module.eval()


@contextmanager
def gradient_checkpointing(module: nn.Module) -> Iterator[None]:
    """Make each transformer layer of a module recompute its activations in the backward pass, during the block.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).

    Raises:
        UsageError: the module has no transformer layers.
    """

    def checkpointed(layer: nn.Module, forward: Any, *arguments: Any, **named: Any) -> Any:
        if not layer.training:
            return forward(*arguments, **named)
        named |= {"past_key_values": None} if "past_key_values" in named else {}  # a second pass would extend it
        return torch.utils.checkpoint.checkpoint(forward, *arguments, use_reentrant=False, **named)

    stacked: Any = [module.get_submodule(path.removesuffix(".")) for path, _ in steps.stacks(module)]
    layers = [layer for stack in stacked for layer in stack]
    if not layers:
        raise UsageError("gradient_checkpointing: the model has no transformer layers; remove this option")
    for layer in layers:
        layer.forward = partial(checkpointed, layer, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def accelerated(device: torch.device) -> Any:
    """Join all processes and return an `Accelerator`. Raises UsageError if the launcher's settings would interfere."""
    from accelerate import Accelerator

    check_settings()
    join(on_cpu=device.type == "cpu")
    accelerator = Accelerator(cpu=device.type == "cpu", device_placement=False, mixed_precision="no")
    if device.type == "cuda":
        torch.cuda.set_device(device)  # accelerate has selected the one of the process's rank
    return accelerator


def distributed(module: nn.Module) -> nn.Module:
    """Return the module itself or, with several processes, wrapped so that gradients are averaged over all processes.

    The wrapper keeps the module's device, whereas accelerate's would use the GPU with the number of the process's rank.
    It also accepts weights that the forward pass does not use, such as a pooler's.
    """
    if world().size == 1:
        return module
    return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)
