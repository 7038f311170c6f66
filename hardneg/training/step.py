"""The parts of a training step: optimizers, learning rates, gradient norms, and the base class of training methods."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from hardneg.records import TrainingError
from hardneg.runtime import distributed, seeding
from hardneg.training import batches, checkpoint, sources
from hardneg.training.examples import SampledBatch
from hardneg.training.options import LearningOptions


class Objective(Protocol):
    """A loss function that maps a `ScoreBatch`, or a method's own type of scores, to a scalar."""

    version: ClassVar[int]

    def __call__(self, batch: Any) -> Tensor: ...


class ExampleTraining:
    """Base class for training methods that draw batches from examples. A batch depends only on its start and the seed.

    encoder: the network, with `module`, `device` and `save`. trainable: the module whose weights are trained and saved
    in checkpoints. forward_module: the module that encodes a batch in one forward pass.
    """

    examples: sources.AnyExamples
    encoder: Any
    trainable: Any
    forward_module: Any

    @property
    def refresh_interval(self) -> int | None:
        """Steps between calls of `prepare`, with a checkpoint before each; None means a single call at the start."""
        return None

    @property
    def skipped(self) -> Mapping[str, int]:
        """The numbers of skipped queries and positives, by reason."""
        return self.examples.skipped

    def __len__(self) -> int:
        return len(self.examples)

    def digest(self) -> str:
        """Return a digest of the training data and the method; it ignores initial weights, loss and options."""
        return self.examples.digest()

    def prepare(self, step: int) -> None:
        """Prepare to start or resume at `step`; the module already has the weights of that step."""

    def batches(self, starts: range, size: int) -> Iterator[Any]:
        """Yield a batch of `size` queries, with `query_ids`, for each start position; the next is tokenised ahead."""
        return batches.ahead(lambda start: self.make(self.examples.draw(start, size)), starts)

    def make(self, drawn: SampledBatch) -> Any:
        """Create a batch from sampled examples."""
        raise NotImplementedError

    def scores(self, model: Any, batch: Any, half: bool) -> Any:
        """Return the input of the loss, such as a `ScoreBatch`.

        model: `forward_module`, wrapped by accelerate. half: whether to use bfloat16 where possible.
        """
        raise NotImplementedError

    def minimised(
        self, loss: Objective, model: Any, batch: Any, half: bool, done: float
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of a batch and the penalty to add to it, if any.

        model, half: as in `scores`. done: the fraction of steps that are finished, at least 0 and below 1.
        """
        return loss(self.scores(model, batch, half)), None

    def log_metrics(self, step: int) -> checkpoint.Record:
        """Return additional values to log after `step`; empty if there are none."""
        return {}


AHEAD = {"cuda": 16}  # steps queued on a device before their values are read; 1 elsewhere


@dataclass(frozen=True, slots=True)
class TakenStep:
    """The values of one step, possibly still on the device.

    number: counted from 1. query_ids: query ids of each batch. batches: values of each batch by name, such as `loss`.
    norm: total gradient norm before clipping. norms: norms by group of layers. seen: the method's own metrics.
    """

    number: int
    query_ids: Sequence[Sequence[str]]
    batches: Sequence[Mapping[str, Tensor | float]]
    learning_rate: float
    norm: Tensor
    norms: Mapping[str, Tensor | float]
    seen: checkpoint.Record


def records(steps: Sequence[TakenStep]) -> Iterator[checkpoint.Record]:
    """Yield the record of each step, reading all values from the device at once.

    A record has the `step`, means over its batches (`loss`, and `penalty` if there is one), `learning_rate`,
    `gradient_norm`, `gradient_norms` and the method's metrics.

    Raises:
        TrainingError: a loss or a gradient is not finite; the message gives the first such step.
    """
    parts = [part for step in steps for part in (*step.batches, {"": step.norm}, step.norms)]
    figures = [figure for part in parts for figure in part.values()]
    tensors = [figure.detach().reshape(()) for figure in figures if isinstance(figure, Tensor)]
    fetched = iter(torch.stack(tensors).tolist() if tensors else [])
    values = iter([next(fetched) if isinstance(each, Tensor) else float(each) for each in figures])
    for step in steps:
        batches = [{name: next(values) for name in batch} for batch in step.batches]
        norm, norms = next(values), {name: next(values) for name in step.norms}
        all_ids = [query_id for ids in step.query_ids for query_id in ids]
        named = [(*each, ids) for batch, ids in zip(batches, step.query_ids, strict=True) for each in batch.items()]
        for name, value, ids in (*named, ("gradient norm", norm, all_ids)):
            if not math.isfinite(value):
                more = f" and {len(ids) - 10} more" if len(ids) > 10 else ""
                where = f"step {step.number}: the {name} is {value} for queries {', '.join(ids[:10])}{more}"
                raise TrainingError(f"{where}; lower the learning rate, or train with precision fp32")
        means = {name: sum(batch[name] for batch in batches) / len(batches) for name in batches[0]}
        rate = {"learning_rate": step.learning_rate}
        yield {"step": step.number, **means, **rate, "gradient_norm": norm, "gradient_norms": norms, **step.seen}


@dataclass(frozen=True, slots=True)
class Learner:
    """The objects that all steps share. half: whether the transformer uses bfloat16. groups: see `layer_groups`."""

    accelerator: Any
    method: ExampleTraining
    model: Any
    optimizer: Any
    loss: Objective
    options: LearningOptions
    half: bool
    groups: "Groups"


def update(learner: Learner, batches: Sequence[Any], step: int, learning_rate: float) -> TakenStep:
    """Perform training step `step`, counted from 0, with the accumulated gradients of its batches.

    Dropout depends on the seed, the step, the batch within the step and the process, so a resumed run repeats it.
    """
    model, accelerator, here = learner.model, learner.accelerator, distributed.world()
    process = [] if here.rank == 0 else [here.rank]
    done = step / learner.options.total_steps(len(learner.method))
    figures: list[dict[str, Tensor | float]] = []
    for number, batch in enumerate(batches):
        torch.manual_seed(seeding.derive_seed(learner.options.seed, "dropout", step, number, *process))
        last = number == len(batches) - 1
        with nullcontext() if last else accelerator.no_sync(model):
            loss, penalty = learner.method.minimised(learner.loss, model, batch, learner.half, done)
            figures.append({"loss": loss.detach(), **({} if penalty is None else {"penalty": penalty.detach()})})
            accelerator.backward((loss if penalty is None else loss + penalty) / len(batches))
    norms = gradient_norms(learner.groups)
    norm = accelerator.clip_grad_norm_(model.parameters(), learner.options.clip_norm or math.inf)
    for group in learner.optimizer.param_groups:
        group["lr"] = learning_rate * group.get("factor", 1.0)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    seen, query_ids = learner.method.log_metrics(step + 1), [batch.query_ids for batch in batches]
    return TakenStep(step + 1, query_ids, figures, learning_rate, norm, norms, seen)


class Lamb(torch.optim.Optimizer):
    """LAMB: Adam without bias correction, with each tensor's step scaled to the norm of its weights.

    Source: You et al., Large Batch Optimization for Deep Learning (ICLR 2020), Algorithm 2; the norm of the weights is
    clipped at 10 and bias correction is omitted, as in the code of ANCE and STAR.
    """

    largest_norm = 10.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._update(weights, weights.grad, group)

    def _update(self, weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:
            state |= {"exp_avg": torch.zeros_like(weights), "exp_avg_sq": torch.zeros_like(weights)}
        first, second = group["betas"]
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        step = mean / (square.sqrt() + group["eps"])
        if group["weight_decay"]:
            step.add_(weights, alpha=group["weight_decay"])
        size, length = weights.norm().clamp(max=self.largest_norm), step.norm()
        trust = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
        weights.sub_(step * (trust * group["lr"]))


def make_optimizer(module: nn.Module, options: LearningOptions) -> torch.optim.Optimizer:
    """Create the optimizer for all trainable weights; biases and LayerNorm weights have no weight decay.

    A weight with an attribute `factor` has no decay either, and its learning rate is multiplied by `factor`.
    """
    exempt = {
        id(weights)
        for part in module.modules()
        for name, weights in part.named_parameters(recurse=False)
        if name == "bias" or "norm" in type(part).__name__.lower()
    }
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (options.weight_decay, 0.0)]
    for weights in module.parameters():
        if hasattr(weights, "factor"):
            groups.append({"params": [weights], "weight_decay": 0.0, "factor": weights.factor})
        elif weights.requires_grad:
            groups[id(weights) in exempt]["params"].append(weights)
    groups = [group for group in groups if group["params"]]
    if options.optimizer == "lamb":
        return Lamb(groups, lr=options.learning_rate, eps=options.epsilon)
    tensors = [weights for group in groups for weights in group["params"]]
    fusible = all(weights.device.type in ("cpu", "cuda") and weights.is_floating_point() for weights in tensors)
    fused = True if fusible else None  # None leaves the choice to torch
    return torch.optim.AdamW(groups, lr=options.learning_rate, eps=options.epsilon, fused=fused)


def schedule_factor(step: int, total: int, options: LearningOptions) -> float:
    """Return the learning-rate factor at `step`, counted from 0: it rises to 1 in the warm-up, then follows `decay`."""
    steps = options.warmup_steps
    warmup = math.ceil(options.warmup_ratio * total) if steps is None else steps
    if step < warmup:
        return step / warmup if options.warmup_from_zero else (step + 1) / (warmup + 1)
    if options.decay == "constant":
        return 1.0
    start = 0 if options.decay_from_start else warmup
    left = max(0.0, (total - step) / max(1, total - start))
    return left if options.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)


GROUPS = ("bottom", "middle", "top")
Groups = Mapping[str, Sequence[nn.Parameter]]


def layer_groups(module: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the trainable weights by third of the transformer's layers: `bottom`, `middle` and `top`.

    Embeddings and other modules before the layers belong to the bottom, modules after them to the top. Each side of a
    twin encoder is split by its own layers. A weight with its own learning rate forms a group under its own name. A
    model without a list of same-class layers forms one group, `all`. Empty groups are omitted.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    layered, seen = dict(stacks(module)), set[str]()
    grouped: dict[str, list[nn.Parameter]] = {name: [] for name in GROUPS}
    for name, weights in module.named_parameters():
        seen |= {path for path in layered if name.startswith(path)}
        third = GROUPS[_third(name, layered, seen)] if layered else "all"
        if weights.requires_grad:
            grouped.setdefault(name if hasattr(weights, "factor") else third, []).append(weights)
    return {name: group for name, group in grouped.items() if group}


def gradient_norms(groups: Groups) -> dict[str, Tensor | float]:
    """Return the 2-norm of each group's current gradients: a float32 or float64 scalar, or 0.0 without gradients."""
    norms: dict[str, Tensor | float] = {}
    for name, group in groups.items():
        tensors = [weights.grad for weights in group if weights.grad is not None]
        if tensors:
            precise = torch.promote_types(tensors[0].dtype, torch.float32)
            norms[name] = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(tensors, 2, dtype=precise))))
        else:
            norms[name] = 0.0
    return norms


def stacks(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the path and length of each outermost list of two or more layers of the same class; paths end in a dot."""
    for name, child in module.named_children():
        path = f"{prefix}{name}."
        if isinstance(child, nn.ModuleList) and len(child) > 1 and len({type(layer) for layer in child}) == 1:
            yield path, len(child)
        else:
            yield from stacks(child, path)


def _third(name: str, stacks: Mapping[str, int], seen: set[str]) -> int:
    """Return the third (0 to 2) of a layer; other modules are in the first or last, depending on the nearest layers."""
    for path, count in stacks.items():
        if name.startswith(path):
            layer = int(name[len(path) :].split(".")[0])
            return (2 * layer + 1) * len(GROUPS) // (2 * count)

    def shared(path: str) -> int:
        pairs = zip(name.split("."), path.split("."), strict=False)
        return next((number for number, (one, other) in enumerate(pairs) if one != other), len(path))

    nearest = max(stacks, key=shared)
    return len(GROUPS) - 1 if nearest in seen else 0
