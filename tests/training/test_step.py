"""One step of training, computed by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy import options

from hardneg.training.step import Learner, update


class Alone:
    """Of accelerate what a step calls, and for which losses gradients were kept from the other processes."""

    def __init__(self) -> None:
        self.apart, self.alone = False, list[bool]()

    @contextmanager
    def no_sync(self, model: Any) -> Iterator[None]:
        self.apart = True
        yield
        self.apart = False

    def backward(self, loss: Tensor) -> None:
        self.alone.append(self.apart)
        loss.backward()

    def clip_grad_norm_(self, weights: Any, longest: float) -> Tensor:
        return nn.utils.clip_grad_norm_(weights, longest)


class Slopes:
    """A loss that is as many times the weight as a batch says, with a penalty of one weight more."""

    encoder = SimpleNamespace(device=torch.device("cpu"))

    def __len__(self) -> int:
        return 3

    def minimised(self, loss: Any, model: Any, batch: Any, half: bool, done: float) -> tuple[Tensor, Tensor]:
        weight = model.weight.sum()
        return batch.slope * weight, weight

    def log_metrics(self, step: int) -> dict[str, Any]:
        return {}


def test_a_step_takes_the_mean_gradient_and_processes_meet_at_its_last_batch() -> None:
    """Slopes 2 + 1, 4 + 1 and 6 + 1 have a mean of 5; at half of a rate of 0.2 the weight goes from 1 to 0.5."""
    model, accelerator = nn.Linear(1, 1, bias=False), Alone()
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD([{"params": [model.weight], "factor": 0.5}], lr=1.0)
    groups = {"all": [model.weight]}
    chosen = options(accumulate=3, clip_norm=None)
    learner: Any = Learner(accelerator, Slopes(), model, optimizer, None, chosen, False, groups)  # type: ignore[arg-type]
    batches = [SimpleNamespace(slope=slope, query_ids=[f"q{slope}"]) for slope in (2.0, 4.0, 6.0)]
    taken = update(learner, batches, 0, 0.2)
    assert model.weight.item() == pytest.approx(0.5)
    assert float(taken.norm) == pytest.approx(5) and float(taken.norms["all"]) == pytest.approx(5)
    assert accelerator.alone == [True, True, False]
