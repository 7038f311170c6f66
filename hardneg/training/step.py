"""A training method's interface, and one update by it: losses and norms, and dropout that a CPU draws fast."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from hardneg.records.errors import TrainingError
from hardneg.runtime.distributed import gather, world
from hardneg.runtime.seeding import derive_seed
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


@dataclass(frozen=True, slots=True)
class Minimised:
    """The terms that an update minimises: the sum of a loss and a penalty, scalars with gradients.

    penalty: a regularizer's; None without one.
    """

    loss: Tensor
    penalty: Tensor | None = None

    @property
    def total(self) -> Tensor:
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
            yield {
                "step": step.number, **means, **before,
                "gradient_norm": norm, "gradient_norms": norms, **after,
            }  # fmt: skip


def _check(what: str, value: float, number: int, query_ids: Sequence[str]) -> None:
    if math.isfinite(value):
        return
    more = f" and {len(query_ids) - 10} more" if len(query_ids) > 10 else ""
    raise TrainingError(
        f"step {number}: the {what} is {value}, with queries {', '.join(query_ids[:10])}{more}: "
        "lower the learning rate, or train with precision fp32"
    )


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
            with dropout_of(learner.options, learner.method.encoder.device):
                minimised = learner.method.minimised(learner.loss, model, batch, learner.half, done)
            penalty = (
                {} if minimised.penalty is None else {"penalty": _value(minimised.penalty.detach(), learner.options)}
            )
            records.append({"loss": _value(minimised.loss.detach(), learner.options), **penalty})
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


_LEVELS = 1 << 16  # a draw is one of so many numbers: a share of 0.1 is 0.10001


def dropout_of(options: LearningOptions, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context of forward passes in which dropout is drawn by the options."""
    return FastDropout() if options.passes == "by_length" and device.type == "cpu" else nullcontext()


class FastDropout(TorchFunctionMode):
    """Inside, dropout of tensors on a CPU is drawn from SFC64, 16 bits a number; torch's generator gives the seed.

    So it depends on torch's state alone, which it moves by one draw, whenever it is entered. torch's own draws take as
    long as the products of a small transformer in bfloat16. Attention with dropout is computed here too, for torch
    has no fast kernel for it and goes through float32; its scores keep the precision that they come in.

    Backward passes run outside: what computes activations again in them would draw otherwise.
    """

    def __enter__(self) -> Any:
        self._bits = np.random.SFC64(int(torch.randint(2**62, ())))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, or its replacement."""
        options = dict(kwargs or {})
        if func is functional.dropout:
            return self._dropout(func, *args, **options)
        if func is functional.scaled_dot_product_attention and options.get("dropout_p", 0.0) > 0:
            return self._attention(func, *args, **options)
        return func(*args, **options)

    def _dropout(
        self, func: Callable[..., Any], input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        if not training or inplace or not 0 < p < 1 or input.device.type != "cpu":
            return func(input, p, training, inplace)
        return input * self._kept(input, p)

    def _attention(self, func: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        if query.device.type != "cpu" or options.get("is_causal") or options.get("enable_gqa"):
            return func(query, key, value, **options)
        scale = options.get("scale")
        with torch.autocast("cpu", enabled=False):
            scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.transpose(-1, -2)
            weights = _masked(scores, options.get("attn_mask")).softmax(-1)
            return (weights * self._kept(weights, options["dropout_p"])) @ value

    def _kept(self, like: Tensor, p: float) -> Tensor:
        """0 for the share `p`, and what makes up for it elsewhere; of the same shape and type."""
        count, dropped = like.numel(), min(max(round(p * _LEVELS), 1), _LEVELS - 1)
        drawn = self._bits.random_raw(-(-count // 4)).view(np.int16)[:count]
        kept = torch.from_numpy(drawn).view(like.shape) >= dropped - _LEVELS // 2
        return kept.to(like.dtype).mul_(_LEVELS / (_LEVELS - dropped))


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores where a mask, of booleans or to be added, leaves them; a row without any has equal ones."""
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores + mask.to(scores.dtype)
