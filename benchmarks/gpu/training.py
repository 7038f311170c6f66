"""Training: the CPU's losses, the gradient cache's gradients and memory, steps against the peer's trainer."""

import tempfile
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu.material import LENGTH, encoder, model, peak, training_data
from gpu.setting import Figures, Setting, Skipped, expect

from hardneg.losses.pairwise import Star
from hardneg.runtime import Silent
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

_SAME = {"fp32": 2e-3, "bf16": 5e-2}


def history(setting: Setting, device: str, **options: Any) -> list[dict[str, Any]]:
    """The records of a few steps of STAR; the same draws on every device."""
    size = setting.size(16, 6)
    given: dict[str, Any] = {"batch_size": size, "negatives_per_query": 2, "max_steps": 5, "learning_rate": 1e-4}
    given |= {"precision": "fp32", "warmup_steps": 1, "checkpoint_every": None}
    with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        settings = TrainOptions(**{**given, **options})
        data = training_data(setting, setting.size(400, 40))
        return train(encoder(setting, device), data, Star(), settings, Path(folder), progress=Silent()).history


def largest_difference(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> float:
    """Of losses and norms of gradients, relative, over all steps."""
    names = ("loss", "gradient_norm")
    pairs = [(one[name], other[name]) for one, other in zip(found, expected, strict=True) for name in names]
    return max(abs(one - other) / max(abs(other), 1e-9) for one, other in pairs)


def losses(setting: Setting) -> Figures:
    """Of the first steps, against those of the CPU in float32."""
    expected, found = history(setting, "cpu"), Figures()
    for precision, within in _SAME.items():
        steps = 5 if precision == "fp32" else 1
        here = history(setting, setting.device, precision=precision)[:steps]
        apart = largest_difference(here, expected[:steps])
        expect(apart < within, f"{precision}: losses or norms of gradients are {apart:.2%} apart from the CPU's")
        found[f"{precision}, largest difference"] = round(apart, 7)
    return found


def cache(setting: Setting) -> Figures:
    """Losses and norms of gradients with the gradient cache are those of the plain batch, in less memory."""
    size, found = setting.size(64, 8), Figures()
    for precision, within in _SAME.items():
        plain, cached = ({"batch_size": size, "precision": precision, "chunk": chunk} for chunk in (None, size // 8))
        whole = history(setting, setting.device, **plain)
        parts = history(setting, setting.device, **cached)
        steps = 5 if precision == "fp32" else 1
        apart = largest_difference(parts[:steps], whole[:steps])
        expect(apart < within, f"{precision}: {apart:.2%} apart from the plain batch")
        found[f"{precision}, largest difference"] = round(apart, 7)
        if setting.gpu:
            memory = [
                peak(lambda given=given: history(setting, setting.device, **given), setting)
                for given in (plain, cached)
            ]
            expect(memory[1] < memory[0], f"{precision}: {memory[1]:,} bytes, the plain batch takes {memory[0]:,}")
            found |= {f"{precision}, share of the plain batch's memory": round(memory[1] / memory[0], 3)}
    return found


def speed(setting: Setting) -> Figures:
    """Pairs a second, and as many times those of SentenceTransformerTrainer, in float32 and bfloat16."""
    peer = import_module("train_speed")
    if not setting.gpu and torch.cuda.is_available():
        raise Skipped("both trainers take the GPU that is there")
    import_module("datasets")
    asked = Namespace(steps=setting.size(60, 3), batch=setting.size(64, 4), length=LENGTH, model=str(model(setting)))
    texts = peer.triplets(asked.steps * asked.batch)
    found: Figures = {"triplets": len(texts)}
    for precision in ("fp32", "bf16"):
        ours, theirs = (
            float(np.median([peer.seconds(way) for _ in range(setting.size(3, 1))]))
            for way in (
                lambda precision=precision: peer.ours(texts, asked, precision),
                lambda precision=precision: peer.theirs(texts, asked, precision == "bf16"),
            )
        )
        found[f"{precision}, pairs/s"] = round(len(texts) / ours, 1)
        found[f"{precision}, times SentenceTransformerTrainer"] = round(theirs / ours, 2)
    return found
