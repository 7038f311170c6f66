"""Losses and norms of steps: kept on the device and read every few steps, so that no step waits for a GPU."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hardneg.records.errors import TrainingError
from hardneg.training.history import Record

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

    def add(self, step: TakenStep, ahead: Record, after: Record) -> bool:
        """Keeps a step with what its record has ahead of the norms and after them; true where it is time to read."""
        self._steps.append((step, ahead, after))
        return len(self._steps) >= self._most

    def read(self) -> Iterator[Record]:
        """The record of each step in order, all read at once; no step stays.

        A record has the `step`, means over its batches (`loss`, `penalty` where there is one, and what else a method
        notes), what else was added, `gradient_norm` and `gradient_norms`.

        Raises:
            TrainingError: a loss or a gradient is not finite; names the first such step.
        """
        steps, self._steps = self._steps, []
        parts = [part for step, _, _ in steps for part in (*step.batches, {"": step.norm}, step.norms)]
        values = iter(_values([figure for part in parts for figure in part.values()]))
        for step, ahead, after in steps:
            batches = [{name: next(values) for name in batch} for batch in step.batches]
            norm, norms = next(values), {name: next(values) for name in step.norms}
            for batch, query_ids in zip(batches, step.query_ids, strict=True):
                for name, value in batch.items():
                    _check(name, value, step.number, query_ids)
            _check("norm of the gradient", norm, step.number, [each for ids in step.query_ids for each in ids])
            means = {name: sum(batch[name] for batch in batches) / len(batches) for name in batches[0]}
            yield {
                "step": step.number, **means, **ahead,
                "gradient_norm": norm, "gradient_norms": norms, **after,
            }  # fmt: skip


def _values(figures: Sequence[Tensor | float]) -> list[float]:
    """All as plain numbers, those of the device fetched together."""
    tensors = [figure.detach().reshape(()) for figure in figures if isinstance(figure, Tensor)]
    read = iter(torch.stack(tensors).tolist() if tensors else [])
    return [next(read) if isinstance(figure, Tensor) else float(figure) for figure in figures]


def _check(what: str, value: float, number: int, query_ids: Sequence[str]) -> None:
    if math.isfinite(value):
        return
    more = f" and {len(query_ids) - 10} more" if len(query_ids) > 10 else ""
    raise TrainingError(
        f"step {number}: the {what} is {value}, with queries {', '.join(query_ids[:10])}{more}: "
        "lower the learning rate, or train with precision fp32"
    )
