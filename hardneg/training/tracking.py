"""The accelerator, the tracker that it logs to, and the weights that no pass reaches, which processes leave out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hardneg.encoders.towers import evaluating
from hardneg.records.errors import MissingDependency, TrainingError, UsageError
from hardneg.runtime.distributed import check_settings, from_first, join, world
from hardneg.training.optimizers import stacks

if TYPE_CHECKING:
    from accelerate import Accelerator

_SKIPPING = ("layerdrop", "encoder_layerdrop", "layer_drop")


@contextmanager
def accelerated(
    device: torch.device, tracker: str | None, folder: Path, config: Mapping[str, Any]
) -> Iterator["Accelerator"]:
    """An accelerator of all processes that logs to `tracker`, below `folder` where the tracker keeps files.

    Raises:
        UsageError: accelerate knows no such tracker, or its launcher was given settings that would change the training.
        MissingDependency: the tracker's package is not installed.
    """
    from accelerate import Accelerator

    check_settings(launched=False)
    if tracker is not None:
        _check(tracker)
    join(on_cpu=device.type == "cpu")
    accelerator = Accelerator(
        cpu=device.type == "cpu",
        device_placement=False,
        mixed_precision="no",
        log_with=tracker,
        project_dir=str(folder / "tracker"),
    )
    if device.type == "cuda":
        torch.cuda.set_device(device)  # accelerate takes the one of the process's number
    if tracker is not None:
        plain = {name: "none" if value is None else value for name, value in config.items()}
        accelerator.init_trackers("training", config=plain)
    try:
        yield accelerator
    finally:
        for running in accelerator.trackers if tracker is not None else ():
            running.finish()


@contextmanager
def shared(module: nn.Module) -> Iterator[nn.Module]:
    """The module with its gradients averaged over all processes, each on the device that its weights are on.

    accelerate would take the GPU of the process's number for every one. Every step looks for weights without a gradient
    only where the first process cannot predict them (`never_reached`).
    """
    if world().size == 1:
        yield module
        return
    names: list[str] | None = from_first(never_reached(module) if world().first else None)
    parallel: Any = nn.parallel.DistributedDataParallel
    parallel._set_params_and_buffers_to_ignore_for_model(module, names or [])
    with unreached(module, names or []):
        yield parallel(module, find_unused_parameters=names is None)


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record for a tracker; those of a part are called `<part>/<name>`."""
    values: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            values |= {f"{name}/{inner}": number for inner, number in numbers(value).items()}
        elif isinstance(value, int | float):
            values[name] = value
    return values


def logged(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a step's record for a tracker."""
    of_layers = {f"gradient_norm/{name}": norm for name, norm in record["gradient_norms"].items()}
    apart = {"step", "gradient_norms"}
    return {**numbers({name: value for name, value in record.items() if name not in apart}), **of_layers}


def _check(tracker: str) -> None:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    known = sorted(map(str, LOGGER_TYPE_TO_CLASS))
    if tracker not in known:
        raise UsageError(f"no tracker is called {tracker!r}; there are: {', '.join(known)}")
    if tracker not in map(str, get_available_trackers()):
        raise MissingDependency(f"the tracker {tracker!r} is not installed: pip install {tracker}")


def never_reached(module: nn.Module) -> list[str] | None:
    """Return the learning weights that no pass reaches, such as a pooler's; None where passes may differ.

    Read from the graph of one pass without dropout over the input of `module.trial`. Passes may differ where a member
    of a list of layers or of experts was not reached, where layers are skipped by chance, and without a `trial`.
    """
    trial, configs = getattr(module, "trial", None), (getattr(part, "config", None) for part in module.modules())
    if trial is None or any(getattr(config, name, 0) for config in configs for name in _SKIPPING):
        return None
    with evaluating(module), torch.enable_grad(), torch.compiler.set_stance("force_eager"):
        outputs = module(*trial())
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        reached = set(map(id, _leaves([part for part in parts if isinstance(part, Tensor)])))
    missed = [name for name, weight in module.named_parameters() if weight.requires_grad and id(weight) not in reached]
    listed = tuple(path for path, _ in stacks(module))
    return None if any(name.startswith(listed) for name in missed) else missed


@contextmanager
def unreached(module: nn.Module, names: list[str]) -> Iterator[None]:
    """Raise TrainingError where one of these weights gets a gradient after all."""

    def refuse(_: Tensor) -> None:
        raise TrainingError(
            f"a weight that a first pass did not reach has a gradient: one of {', '.join(names)}; "
            "several processes cannot share it: train in one"
        )

    weights = dict(module.named_parameters())
    listened: list[Any] = [weights[name] for name in names]
    handles = [weight.register_post_accumulate_grad_hook(refuse) for weight in listened]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leaves(tensors: list[Tensor]) -> Iterator[Tensor]:
    """Yield the weights that the tensors were computed from."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node: Any = waiting.pop()
        if hasattr(node, "variable"):
            yield node.variable
        following = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= following
        waiting += following
