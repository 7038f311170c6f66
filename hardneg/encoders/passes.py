"""Passes of about equal work over texts or pairs: their precision, by what the device can do, and their sizes."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hardneg.encoders.spec import Precision
from hardneg.records import ModelError, UsageError
from hardneg.registry import faster
from hardneg.runtime import has_bf16_units
from hardneg.store import choose

Use = Literal["inference", "training"]
Cut = Callable[[NDArray[np.int64], int], Iterable[NDArray[np.int64]]]
"""Divides texts of these lengths, the longest first, into passes of at most so many tokens, or of one row."""

LARGE = 1_000_000
"""Weights from which on a transformer's precision makes a difference."""
_GPU_TOKENS = 65_536
_CPU_OUTPUT, _GPU_OUTPUT = 512 << 20, 16 << 30  # bytes that a pass may make of its tokens
_Item = TypeVar("_Item")
_Features = TypeVar("_Features")
_Output = TypeVar("_Output")
_log = logging.getLogger(__name__)


def takes_bf16(precision: Precision, network: nn.Module, use: Use) -> bool:
    """Whether the transformer in `network` is to compute in bfloat16; `auto` does where the device has units for it.

    Without a transformer, or with one of fewer than a million weights, `auto` is float32. What resumes keeps to what
    it began with.

    Raises UsageError: bfloat16 is requested on a GPU that only imitates it.
    """
    if precision == "auto":
        transformer = _transformer_of(network)
        weights = 0 if transformer is None else sum(weight.numel() for weight in transformer.parameters())
        if weights < LARGE:
            return False
        subject = f"{use} on {transformer.device.type}, {weights:,} weights"
        return choose(subject, *("bf16", "fp32") if has_bf16_units(transformer.device) else ("fp32", "bf16")) == "bf16"
    if precision == "bf16":
        device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
        if device.type == "cuda" and not has_bf16_units(device):
            raise UsageError(
                f"precision bf16 needs a GPU of CUDA capability 8.0 or later, and {torch.cuda.get_device_name(device)} "
                "is older: set precision to fp32 or auto"
            )
    return precision == "bf16"


def arrange(network: nn.Module) -> Any:
    """Has a copy of a network, without gradients, compute in the faster ways of a package; returns them, if any."""
    ways = None if _transformer_of(network) is None else faster("passes")
    if ways is not None:
        ways.arrange(network)
    return ways


def _transformer_of(network: nn.Module) -> Any:
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)


@dataclass
class Budget:
    """Tokens of a pass, padding included, of all windows of a model: fewer, once a pass was too large."""

    tokens: int


def usual_budget(device: torch.device) -> int:
    """Tokens of a pass, padding included: on a CPU what stays in its caches."""
    return 1024 * torch.get_num_threads() if device.type == "cpu" else _GPU_TOKENS


def most_tokens(first: Any, device: torch.device) -> int:
    """The most tokens of a pass whose output of the first module is not too large, such as logits of all terms."""
    numbers = int(first.get_embedding_dimension()) if hasattr(first, "get_embedding_dimension") else 1
    return max(1, (_CPU_OUTPUT if device.type == "cpu" else _GPU_OUTPUT) // (4 * numbers))


def in_passes(
    lengths: NDArray[np.int64],
    budget: Budget,
    cut: Cut,
    put: Callable[[NDArray[np.int64]], _Features],
    run: Callable[[_Features], _Output],
    advance: Callable[[int], None],
) -> Iterator[tuple[NDArray[np.int64], _Output]]:
    """Yields the rows of each pass, int64 [b], and their output; the next pass is copied to its device meanwhile.

    A pass that memory does not hold is cut in two, and so are all later ones.

    lengths: int64 [n], tokens of each text. budget: of a pass; a size that is too large here is not tried again.
    cut: divides texts into passes. put: returns the features of some rows, on the device. run: computes the output of
    features. advance: called with the number of rows of each pass.

    Raises ModelError: memory does not hold one text alone.
    """
    left = np.arange(len(lengths))
    while len(left):
        passes, done = [left[rows] for rows in cut(lengths[left], budget.tokens)], 0
        try:
            for rows, features in ahead(((rows, put(rows)) for rows in passes), 1):
                yield rows, run(features)
                done += 1
                advance(len(rows))
        except torch.OutOfMemoryError as error:
            if len(passes[done]) == 1:
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"a text of {lengths[passes[done][0]]} tokens alone does not fit the device's memory: let texts be "
                    f"cut shorter, or free the device of other programs ({reason:.200})"
                ) from None
        left = np.concatenate([left[:0], *passes[done:]])
        if len(left):  # what the pass held is free only here, where its exception is gone
            failed = lengths[passes[done]]
            tried = min(budget.tokens, len(failed) * int(failed.max()))
            budget.tokens = max(1, tried // 2)
            torch.cuda.empty_cache()
            _log.warning("the device's memory does not hold a pass of %d tokens: %d from now on", tried, budget.tokens)


def ahead(pending: Iterator[_Item], count: int) -> Iterator[_Item]:
    """The same items, each yielded once the next `count` ones are drawn too."""
    held: deque[_Item] = deque()
    for item in pending:
        held.append(item)
        if len(held) > count:
            yield held.popleft()
    yield from held
