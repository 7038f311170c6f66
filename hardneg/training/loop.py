"""The training loop: one accelerate loop for all losses, whose result a kill at any time does not change."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hardneg.encoders.towers import takes_bf16
from hardneg.records import HISTORY, TrainingError, UsageError, counted
from hardneg.runtime import Progress, Silent, Task, barrier, check_settings, from_first, join, world
from hardneg.runtime.devices import float32_products
from hardneg.store import EARLIER, KEPT, SCRATCH, digest, noted, options_in_key, replace_text
from hardneg.training import step as steps
from hardneg.training.checkpoint import Checkpoints, History, Record, TrainState, forget_kept, weights_digest
from hardneg.training.options import LearningOptions
from hardneg.training.step import ExampleTraining, Learner, Objective, make_optimizer, update

if TYPE_CHECKING:
    from accelerate import Accelerator

Validate = Callable[[], Mapping[str, float]]
CHECKPOINT_SECONDS = 300.0
"""Without a checkpoint in so many seconds one is written after the next step; that is what a stop costs at most."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a run.

    history: records with `step`, counted from 1, and either `loss`, `learning_rate`, `gradient_norm` and
    `gradient_norms` (by group of layers) or `dev`, the metrics measured after it.
    steps: how many were taken. best_step and best: the best dev metric and where it was, if measured.
    skipped: queries and positives left out, by reason. earlier: seconds of the earlier, stopped runs, up to the
    checkpoint that was resumed.
    """

    history: list[Record]
    steps: int
    best_step: int | None
    best: float | None
    skipped: Mapping[str, int]
    earlier: float = 0.0

    def facts(self, metric: str) -> dict[str, Any]:
        """Return the facts for a manifest; `metric` is the one that chose the best weights."""
        earlier = {EARLIER: round(self.earlier, 3)} if self.earlier else {}
        best = {} if self.best is None else {"best step": self.best_step, f"best dev {metric}": self.best}
        left_out = {f"left out: {reason}": count for reason, count in self.skipped.items()}
        return {"steps": self.steps, **earlier, **best, **left_out}


def learn(
    method: ExampleTraining,
    loss: Objective,
    options: LearningOptions,
    folder: Path,
    *,
    progress: Progress,
    validate: Validate | None = None,
) -> TrainingResult:
    """Train in place; the encoder ends with the best weights where there are dev metrics, else with the last.

    `folder` keeps `history.jsonl` and `checkpoints/`: a call with the same arguments resumes from there. On a CPU the
    weights then are, bit for bit, those of a run that was never stopped. `kept/` has models on the way. Several
    processes each call this with the same arguments and share each batch; the first one measures, tells and writes.

    Raises:
        UsageError: the options make no sense.
        TrainingError: nothing to learn from, a loss that is not finite, or checkpoints of another run.
    """
    check_options(options)
    if options.batch_size > 100 * len(method):
        asked = f"training options: batch_size: {options.batch_size:,} for {counted(len(method), 'query')} to learn"
        raise UsageError(f"{asked} from: each would stand over 100 times in it; take a smaller one")
    folder.mkdir(parents=True, exist_ok=True)
    progress = progress if world().first else Silent()
    named = [type(loss).__qualname__, type(loss).version, options_in_key(loss) if is_dataclass(loss) else repr(loss)]
    identity = digest([weights_digest(method.trainable), named, options.identity(), method.digest()])
    checkpoints = Checkpoints(folder / SCRATCH, identity)
    with (
        float32_products(method.encoder.device, options.tf32),
        _learning(method.encoder, options),
        noted(checkpoints.choices()) as choices,
    ):
        accelerator = accelerated(method.encoder.device)
        model = accelerator.prepare_model(shared(method.forward_module), evaluation_mode=True)  # not shared once more
        optimizer = accelerator.prepare_optimizer(make_optimizer(method.forward_module, options))
        half, groups = takes_bf16(options.precision, method.trainable, "training"), steps.layer_groups(method.trainable)
        learner = Learner(accelerator, method, model, optimizer, loss, options, half, groups)
        run = _TrainingRun(learner, checkpoints, folder, validate, choices)
        state = run.to_the_end(progress)
        if options.keep_best and state.best_step not in (None, state.step):
            checkpoints.load_weights(method.trainable, state.best_step or 0)
        barrier()
        history = run.history.read()
        barrier()
    for reason, count in method.skipped.items():
        progress.note(f"training: left out {count} {reason}")
    return TrainingResult(history, state.step, state.best_step, state.best, method.skipped, run.earlier)


def check_options(options: LearningOptions) -> None:
    """Raise UsageError with all problems of the options."""
    if problems := options.problems():
        raise UsageError(f"training options: {'; '.join(problems)}")


class _TrainingRun:
    """One call of `learn`; choices: of ways to compute, by subject."""

    def __init__(
        self,
        learner: Learner,
        checkpoints: Checkpoints,
        folder: Path,
        validate: Validate | None,
        choices: Mapping[str, str],
    ) -> None:
        self.learner, self.method, self.options = learner, learner.method, learner.options
        self.checkpoints, self.history, self.kept = checkpoints, History(folder / HISTORY), folder / KEPT
        self.validate, self.choices, self.began, self.earlier = validate, choices, time.monotonic(), 0.0
        self.total, self.last = self.options.total_steps(len(self.method)), self.options.last_step(len(self.method))

    def to_the_end(self, progress: Progress) -> TrainState:
        """Train from the newest checkpoint to the last step or until patience runs out."""
        state, options = self.checkpoints.restore(self.method.trainable, self.learner.optimizer), self.options
        if from_first(state.step) != state.step:
            raise TrainingError(f"{self.checkpoints.folder}: not all processes see it: put the store where they all do")
        with suppress(OSError, ValueError):  # of the seconds of stopped runs there is no file, or a damaged one
            seconds = float((self.checkpoints.folder / "seconds").read_text(encoding="ascii"))
            self.earlier = seconds if state.step and 0 < seconds < math.inf else 0.0
        barrier()
        evaluate_every = options.evaluate_every if self.validate else None
        intervals = [options.checkpoint_every, evaluate_every, self.method.refresh_interval, options.keep_every]
        if world().first:
            self.history.truncate(state.step or -1)
            forget_kept(self.kept, state.step)
        with progress.task("training", self.last, "steps", done=state.step) as task:
            while state.step < self.last and not state.stopped:
                # the next step with an evaluation, a checkpoint or a model to keep
                stops = [state.step - state.step % each + each for each in intervals if each is not None]
                stop = min([*stops, self.last])
                self._advance(state, stop, task)
                state = self._judge(replace(state, step=stop))
                if world().first:
                    if options.keep_every is not None and stop % options.keep_every == 0:
                        card = f"# After step {stop}\n\nWeights on the way of a training.\n"
                        self.method.encoder.save(self.kept / f"step-{stop}", card)
                    self._save(state)
        return state

    def _save(self, state: TrainState) -> None:
        self.history.sync()
        state = replace(state, choices=dict(self.choices))
        self.checkpoints.save(self.method.trainable, self.learner.optimizer, state)
        self._saved = time.monotonic()
        replace_text(self.checkpoints.folder / "seconds", f"{self.earlier + self._saved - self.began:.3f}\n")

    def _advance(self, state: TrainState, stop: int, task: Task) -> None:
        start, self._saved = state.step, time.monotonic()
        self.method.prepare(start)
        if not start and (seen := self.method.log_metrics(start)):
            self._add({"step": start, **seen})
        self.method.trainable.train()
        options, began, waiting = self.options, time.monotonic(), list[steps.TakenStep]()
        most = steps.AHEAD.get(self.method.encoder.device.type, 1)
        per_step = options.batch_size * options.accumulate
        starts = range(start * per_step, stop * per_step, options.batch_size)
        stream = self.method.batches(starts, options.batch_size)
        for step in range(start, stop):
            rate = options.learning_rate * steps.schedule_factor(step, self.total, options)
            waiting.append(update(self.learner, list(islice(stream, options.accumulate)), step, rate))
            task.advance()
            late = world().first and step + 1 < stop and time.monotonic() - self._saved > CHECKPOINT_SECONDS
            if late or len(waiting) >= most or step + 1 == stop:
                for record in steps.records(waiting):
                    self._add(record)
                waiting = []
                speed = (step + 1 - start) * per_step / (time.monotonic() - began)
                task.describe(f"loss {record['loss']:.4f}, {speed:.1f} queries/s")
            if late:
                self._save(replace(state, step=step + 1))

    def _judge(self, state: TrainState) -> TrainState:
        every = self.options.evaluate_every
        if self.validate is None or not (state.step == self.last or (every and state.step % every == 0)):
            return state
        here = {name: float(value) for name, value in self.validate().items()} if world().first else None
        metrics: dict[str, float] = dict(from_first(here))
        if self.options.metric not in metrics:
            known = ", ".join(metrics)
            raise UsageError(f"the dev metric {self.options.metric!r} is not measured; there are: {known}")
        self._add({"step": state.step, "dev": metrics})
        value = metrics[self.options.metric]
        if state.best is None or value > state.best:
            return replace(state, best_step=state.step, best=value, misses=0)
        misses = state.misses + 1
        patience = self.options.patience
        return replace(state, misses=misses, stopped=patience is not None and misses >= patience)

    def _add(self, record: Record) -> None:
        if world().first:
            self.history.add(record)


@contextmanager
def _learning(encoder: Any, options: LearningOptions) -> Iterator[None]:
    """Restore torch's random state and the transformers afterwards; leave the model in evaluation mode."""
    devices = [encoder.device] if encoder.device.type == "cuda" else []
    turn_off = compute_twice(encoder.module) if options.gradient_checkpointing else None
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        if turn_off is not None:
            turn_off()
        encoder.module.eval()


def compute_twice(module: nn.Module) -> Callable[[], None]:
    """Make each layer of a module's transformers recompute its activations in the backward pass of a training.

    Returns a function that undoes it.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).

    Raises:
        UsageError: there are no layers.
    """

    def again(layer: nn.Module, forward: Any, *arguments: Any, **named: Any) -> Any:
        if not layer.training:
            return forward(*arguments, **named)
        named |= {"past_key_values": None} if "past_key_values" in named else {}  # a second pass would add to it
        return checkpoint(forward, *arguments, use_reentrant=False, **named)

    stacked: Any = [module.get_submodule(path.removesuffix(".")) for path, _ in steps.stacks(module)]
    layers = [layer for stack in stacked for layer in stack]
    if not layers:
        raise UsageError("gradient_checkpointing: this model has no transformer that can do it; turn it off")
    for layer in layers:
        layer.forward = partial(again, layer, layer.forward)

    def end() -> None:
        for layer in layers:
            del layer.forward

    return end


def accelerated(device: torch.device) -> "Accelerator":
    """An accelerator of all processes.

    Raises:
        UsageError: accelerate's launcher was given settings that would change the training.
    """
    from accelerate import Accelerator

    check_settings()
    join(on_cpu=device.type == "cpu")
    accelerator = Accelerator(cpu=device.type == "cpu", device_placement=False, mixed_precision="no")
    if device.type == "cuda":
        torch.cuda.set_device(device)  # accelerate takes the one of the process's number
    return accelerator


def shared(module: nn.Module) -> nn.Module:
    """The module with its gradients averaged over all processes, each on the device that its weights are on.

    accelerate would take the GPU of the process's number for every one. Weights that no pass reaches, such as a
    pooler's, are looked for at every step.
    """
    if world().size == 1:
        return module
    return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)
