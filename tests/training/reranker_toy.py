"""A tiny cross-encoder on the toy task; run as a program, one of several processes that train it."""

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from toy import options, toy_data

from hardneg.losses.pairwise import Bce
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairNetwork
from hardneg.runtime import Progress, Silent, leave, world
from hardneg.training.loop import TrainingResult, learn
from hardneg.training.methods.reranker import RerankerTraining
from hardneg.training.options import RerankerOptions


def toy_network(model: Path, **more: Any) -> PairNetwork:
    return PairNetwork(CrossEncoder(str(model), length=24, **more).load())


def pair_options(**more: Any) -> RerankerOptions:
    """Six steps of four queries, each with two negatives."""
    settings = options(max_steps=6, accumulate=1, learning_rate=1e-2, warmup_steps=0)
    known = {*RerankerOptions.__dataclass_fields__} - {*more}
    plain = {name: value for name, value in vars(settings).items() if name in known}
    return RerankerOptions(**plain, **more)


def learn_pairs(
    network: PairNetwork, toy: Path, folder: Path, progress: Progress | None = None, loss: Any = None, **more: Any
) -> TrainingResult:
    chosen, loss = pair_options(**more), loss or Bce()
    way = RerankerTraining(network, toy_data(toy), loss, chosen)
    return learn(way, loss, chosen, folder, progress=progress or Silent())


def train_still(toy: Path, model: Path, out: Path, rank: int, number: int) -> None:
    """Three steps without dropout, whose weights go to a file."""
    network = toy_network(model)
    for part in network.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    steps = {"max_steps": 3, "batch_size": 5, "adversarial": 0.1, "optimizer": "adamw", "learning_rate": 1e-4}
    learn_pairs(network, toy, out / f"run-{number}", clip_norm=None, **steps)
    weights = {name: weight.detach().clone() for name, weight in network.module.named_parameters()}
    save_file(weights, str(out / f"{number}-{rank}.safetensors"))


if __name__ == "__main__":
    train_still(*map(Path, sys.argv[1:4]), world().rank, world().size)
    leave()
