"""Whether a network is faster in bfloat16 or in float32 here: a timed trial tells, the names of units do not."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from hardneg.models.soundness import positions
from hardneg.models.spec import ModelSpec
from hardneg.models.towers import finish, in_bfloat16, in_mode
from hardneg.trials import Way, choose, machine_of

Precision = Literal["auto", "fp32", "bf16"]
Use = Literal["inference", "training"]

WORTH_A_TRIAL = 1_000_000  # weights from which on a transformer's precision makes a difference
_ROWS, _LENGTH = 2, 128


def takes_bf16(precision: Precision, network: nn.Module, use: Use) -> bool:
    """Whether the transformer in `network` is to compute in bfloat16.

    `auto` times its forward pass, for training with the backward pass, in both, and stays with float32 unless
    bfloat16 is clearly faster. Without a transformer, or with one of fewer than a million weights, it is float32.
    """
    if precision != "auto":
        return precision == "bf16"
    transformer = _transformer(network)
    if transformer is None:
        return False
    weights, device = sum(weight.numel() for weight in transformer.parameters()), transformer.device
    if weights < WORTH_A_TRIAL or device.type not in {"cpu", "cuda"}:
        return False
    ways = _training_ways(transformer) if use == "training" else _inference_ways(transformer)
    return choose(f"{use} on {device.type}, {weights:,} weights", machine_of(device), ways) == "bf16"


def weights_dtype(spec: ModelSpec, precision: Precision | None) -> torch.dtype:
    """What a transformer's weights are loaded as: float32 to train (no precision) and for trials, else as asked for."""
    if precision is None or spec.dtype == "fp32":
        return torch.float32
    if spec.dtype == "auto":
        return torch.bfloat16 if precision == "bf16" else torch.float32
    return torch.bfloat16 if spec.dtype == "bf16" else torch.float16


def _transformer(network: nn.Module) -> Any:
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)


def _inference_ways(transformer: Any) -> dict[str, Way]:
    def ready(half: bool) -> Callable[[], object]:
        module: Any = in_bfloat16(transformer) if half else transformer
        features = _features(transformer)

        def run() -> None:
            with in_mode(module, training=False), torch.inference_mode():
                module(**features)
            finish(module.device)

        return run

    return {"fp32": lambda: ready(False), "bf16": lambda: ready(True)}


def _training_ways(transformer: Any) -> dict[str, Way]:
    """Passes there and back, plain and under autocast; neither gradients nor the state of the draws stay changed."""
    devices = [transformer.device] if transformer.device.type == "cuda" else []

    def ready(half: bool) -> Callable[[], object]:
        features = _features(transformer)

        def run() -> None:
            with in_mode(transformer, training=True), torch.random.fork_rng(devices=devices):
                with torch.autocast(transformer.device.type, torch.bfloat16, enabled=half):
                    out = transformer(**features)[0]
                out.float().square().mean().backward()
                transformer.zero_grad(set_to_none=True)
            finish(transformer.device)

        return run

    return {"fp32": lambda: ready(False), "bf16": lambda: ready(True)}


def _features(transformer: Any) -> dict[str, torch.Tensor]:
    """Made-up texts of many different tokens, as long as the transformer reads, but no longer than 128."""
    length = min(_LENGTH, positions(transformer) or _LENGTH)
    vocabulary = transformer.get_input_embeddings().num_embeddings
    ids = (torch.arange(_ROWS * length) * 31 % vocabulary).reshape(_ROWS, length).to(transformer.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
