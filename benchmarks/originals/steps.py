"""Whole training steps: the program's loss, groups of weights, optimizer and schedule against ours, twenty updates.

A small network stands in for the transformer, with the names of weights that the programs look at: their groups by
decay are compared too. Clipping is torch's on both sides.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from originals.comparing import Differences, Item
from originals.source import lines, take
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from hardneg.losses.pairwise import LambdaLoss, Star
from hardneg.records import ScoreBatch
from hardneg.training.batches import BatchColumns, masked
from hardneg.training.examples import QueryRows
from hardneg.training.methods.adore import label
from hardneg.training.options import TrainOptions
from hardneg.training.step import make_optimizer, schedule_factor

STEPS = 20
SCHEDULE = {"get_linear_schedule_with_warmup": get_linear_schedule_with_warmup}


class _Encoder(nn.Module):
    """24 numbers to a vector of 16."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(24, 32)
        self.head = nn.Linear(32, 16)
        self.LayerNorm = nn.LayerNorm(16)

    def forward(self, texts: Tensor) -> Tensor:
        """Vectors [n, 16] of texts [n, 24]."""
        vectors: Tensor = self.LayerNorm(self.head(torch.tanh(self.dense(texts))))
        return vectors


Step = Callable[[_Encoder, int], Tensor]
"""The loss of a model at a step."""


def _ours(model: _Encoder, loss: Step, options: TrainOptions) -> list[float]:
    optimizer, found = make_optimizer(model, options), []
    for step in range(STEPS):
        value = loss(model, step)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * schedule_factor(step, STEPS, options)
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(value.detach()))
    return found


def _theirs(model: _Encoder, loss: Step, optimizer: Any, schedule: Any) -> list[float]:
    found = []
    for step in range(STEPS):
        value = loss(model, step)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        found.append(float(value.detach()))
    return found


def _apart(one: _Encoder, other: _Encoder, losses: tuple[list[float], list[float]]) -> Differences:
    """The largest difference of a loss; that of a weight."""
    weights = zip(one.parameters(), other.parameters(), strict=True)
    moved = max(float((mine - again).detach().abs().max()) for mine, again in weights)
    return max(abs(mine - again) for mine, again in zip(*losses, strict=True)), moved


def _star(folder: Path) -> Iterator[Differences]:
    known = {"torch": torch, "F": F, "autocast": lambda enabled: nullcontext()}
    (program,) = take(folder / "model.py", ["inbatch_train"], known)
    (lamb,) = take(folder / "lamb.py", ["Lamb"], {"Optimizer": torch.optim.Optimizer, "torch": torch})
    known = {
        "Lamb": lamb,
        "AdamW": torch.optim.AdamW,
        "get_linear_schedule_with_warmup": get_linear_schedule_with_warmup,
    }
    (prepare,) = take(folder / "star" / "train.py", ["DRTrainer.create_optimizer_and_scheduler"], known)
    for optimizer, decay in (("lamb", 0.01), ("lamb", 0.3), ("adamw", 0.01)):
        model, texts = _Encoder().double(), torch.randn(STEPS, 3, 8, 24, dtype=torch.float64)
        mine, contents = deepcopy(model), np.arange(16, dtype=np.uint64)
        columns = BatchColumns(8, contents, contents[::2], np.arange(8))

        def published(model: _Encoder, step: int, texts: Tensor = texts) -> Any:
            asked, relevant, wrong = texts[step]
            encode = lambda some, mask: model(some)  # noqa: E731
            return program(encode, encode, asked, asked, relevant, relevant, wrong[:, None], wrong[:, None])[0]

        def ours(model: _Encoder, step: int, texts: Tensor = texts, columns: BatchColumns = columns) -> Tensor:
            asked, relevant, wrong = (model(some) for some in texts[step])
            return Star()(masked(asked @ torch.stack([relevant, wrong], dim=1).flatten(0, 1).T, columns))

        numbers = {"learning_rate": 1e-3, "weight_decay": decay, "warmup_steps": 5}
        betas = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}
        trainer = SimpleNamespace(optimizer=None, lr_scheduler=None, model=model)
        trainer.args = SimpleNamespace(optimizer_str=optimizer, **numbers, **betas)
        prepare(trainer, STEPS)
        options = TrainOptions(optimizer=optimizer, warmup_from_zero=True, **numbers)  # type: ignore[arg-type]
        theirs = _theirs(model, published, trainer.optimizer, trainer.lr_scheduler)
        yield _apart(model, mine, (theirs, _ours(mine, ours, options)))


def _adore(folder: Path) -> Iterator[Differences]:
    file = folder / "adore" / "train.py"
    loss_lines, grouping = lines(file, "loss = 0", "loss /="), lines(file, "no_decay =", "scheduler =")
    corpus = torch.randn(300, 16)
    for cut in (10, 200):
        model, texts = _Encoder(), torch.randn(STEPS, 8, 24)
        mine = deepcopy(model)
        relevant = torch.randint(0, len(corpus), (STEPS, 8)).numpy()

        def found(vectors: Tensor) -> np.ndarray:
            return torch.topk(vectors.detach() @ corpus.T, 50).indices.numpy()

        sizes = {"train_batch_size": 8, "gradient_accumulation_steps": 1, "metric_cut": cut}
        numbers = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_steps": 5}
        args = SimpleNamespace(**sizes, **numbers, model_device="cpu", adam_epsilon=1e-8)

        def published(model: _Encoder, step: int, texts: Tensor = texts, relevant=relevant, args=args) -> Any:
            vectors = model(texts[step])
            space = {
                "args": args, "np": np, "torch": torch, "query_embeddings": vectors, "tr_mrr": 0.0, "tr_recall": 0.0,
                "I_nearest_neighbor": found(vectors), "all_rel_pids": [[row] for row in relevant[step]],
                "passage_embeddings": corpus.numpy(),
            }  # fmt: skip
            exec(loss_lines, space)
            return space["loss"]

        def ours(model: _Encoder, step: int, texts: Tensor = texts, relevant=relevant, cut=cut) -> Tensor:
            vectors, places = model(texts[step]), np.arange(8)
            asked = QueryRows([str(row) for row in places], [""] * 8, places, relevant[step], places)
            listed = label(found(vectors), asked, np.arange(len(corpus), dtype=np.uint64), "none_retrieved")
            scores = (vectors[:, None] * corpus[torch.from_numpy(np.maximum(listed.rows, 0))]).sum(2)
            positive, valid = torch.from_numpy(listed.positive), torch.from_numpy(listed.valid)
            ranks = torch.from_numpy(listed.ranks)
            return LambdaLoss(cut=cut)(ScoreBatch(scores, positive, valid & ~positive, valid, ranks=ranks))

        space = {
            "model": model, "args": args, "AdamW": torch.optim.AdamW, "t_total": STEPS,
            **SCHEDULE,
        }  # fmt: skip
        exec(grouping, space)
        theirs = _theirs(model, published, space["optimizer"], space["scheduler"])
        again = _ours(mine, ours, TrainOptions(warmup_from_zero=True, **numbers))
        yield _apart(model, mine, (theirs, again))


ITEMS = {
    "drhard": [
        Item("STAR, 20 steps: losses, weights", "model.py, lamb.py, star/train.py", "`star`, `lamb`, `adamw`", _star),
        Item("ADORE, 20 steps, float32: losses, weights", "adore/train.py: train", "`lambda`, `adamw`", _adore, 1e-5),
    ]
}
