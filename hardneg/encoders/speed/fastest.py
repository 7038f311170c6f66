"""Chooses the fastest way to compute a network, and tokens of a pass, by timed trials on this machine."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hardneg.encoders.open.soundness import positions
from hardneg.encoders.spec import Attention
from hardneg.encoders.speed.attention import set_attention
from hardneg.encoders.speed.compiling import set_compiled
from hardneg.encoders.speed.onednn import multiply_fastest
from hardneg.encoders.speed.packing import Packing, batches, packed_trial, packing_of, padded_trial
from hardneg.encoders.towers import finish, forward, in_bfloat16, in_mode, sharing
from hardneg.runtime.float32_products import rounds_to_tf32
from hardneg.store.atomic_write import replace_text
from hardneg.store.speed_trials import Way, cache_folder, choose, machine_of

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
    if transformer is None or not _worth_a_trial(transformer):
        return False
    weights, device = _count(transformer), transformer.device
    ways = _training_ways(transformer) if use == "training" else _inference_ways(transformer)
    rounded = ", fp32 in tf32" if device.type == "cuda" and rounds_to_tf32() else ""
    return choose(f"{use} on {device.type}, {weights:,} weights{rounded}", machine_of(device), ways) == "bf16"


def arranged(
    network: nn.Module, attention: Attention = "auto", compiled: bool = False, half: bool = False, packed: bool = False
) -> Any:
    """A copy of a network with a transformer inside, to compute without gradients, arranged by `arrange`.

    half: whether the copy has bfloat16 weights; else it shares those of the network.
    """
    copied = in_bfloat16(network) if half else sharing(network)
    arrange(copied, attention, compiled, packed)
    return copied


def arrange(network: nn.Module, attention: Attention = "auto", compiled: bool = False, packed: bool = False) -> None:
    """Makes a copy of a network compute, in its precision, in the fastest ways by trials.

    A network without a transformer, or with one of fewer than a million weights, stays as it is unless requested.

    packed: whether it may get packed texts; not where it is compiled.

    Raises:
        ModelError: the attention is not available, or nothing can be compiled here.
    """
    transformer = _transformer(network)
    if transformer is None:
        return
    if attention != "auto" or _worth_a_trial(transformer):
        set_attention(transformer, attention, packed and not compiled)
    if compiled:
        set_compiled(transformer)
    elif _worth_a_trial(transformer):
        multiply_fastest(transformer)


def _worth_a_trial(transformer: Any) -> bool:
    return _count(transformer) >= WORTH_A_TRIAL and transformer.device.type in {"cpu", "cuda"}


def _count(transformer: Any) -> int:
    return sum(weight.numel() for weight in transformer.parameters())


def _transformer(network: nn.Module) -> Any:
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)


def _inference_ways(transformer: Any) -> dict[str, Way]:
    def ready(half: bool) -> Callable[[], object]:
        module: Any = arranged(transformer, half=half)
        features = _features(transformer)

        def run() -> None:
            with in_mode(module, training=False), torch.inference_mode():
                module(**features)
            finish(module.device)

        return run

    return {"fp32": lambda: ready(False), "bf16": lambda: ready(True)}


def _training_ways(transformer: Any) -> dict[str, Way]:
    """Forward and backward passes, plain and under autocast; gradients and random state are restored."""
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
    """Artificial texts of many different tokens, as long as the transformer reads, but at most 128."""
    length = min(_LENGTH, positions(transformer) or _LENGTH)
    vocabulary = transformer.get_input_embeddings().num_embeddings
    ids = (torch.arange(_ROWS * length) * 31 % vocabulary).reshape(_ROWS, length).to(transformer.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


WORTH_TIMING = 16_384  # texts to encode from which on a few seconds of timing pay
_GPU_TOKENS, _GPU_MOST = 65_536, 1 << 20
_CPU_OUTPUT, _GPU_OUTPUT = 512 << 20, 16 << 30  # bytes that a pass may make of its tokens
_AS_GOOD = 0.97
_SECONDS = 20.0  # of timing, at most, on a machine that is busy or slow
_SHARE = 0.5  # of a GPU's free memory that a pass may take: others may need the rest


def usual_budget(device: torch.device) -> int:
    """The budget without timing: on a CPU what stays in its caches."""
    return 1024 * torch.get_num_threads() if device.type == "cpu" else _GPU_TOKENS


def token_budget(
    parts: Sequence[nn.Module],
    device: torch.device,
    count: int,
    lengths: Callable[[], NDArray[np.int64]] | None = None,
    longest: int = _LENGTH,
) -> int:
    """Tokens of a pass, padding included, for `count` texts: the remembered, timed or usual number.

    lengths: returns the tokens of some of the texts, int64 [n], to time; by default all have 128. longest: the
    length that texts are truncated to. Few texts are not worth timing. The result is kept in `token_budgets.json` in
    the user's cache folder.
    """
    path, name = cache_folder() / "token_budgets.json", _setting(parts[0], device, longest)
    known = _remembered(path)
    if name in known:
        return known[name]
    if count < WORTH_TIMING:
        return usual_budget(device)
    budget = _timed(parts, device, most_tokens(parts[0], device), lengths() if lengths else None)
    _remembered.cache_clear()
    with suppress(OSError):  # a home that cannot be written costs a few seconds each time
        replace_text(path, json.dumps(known | {name: budget}, indent=1, sort_keys=True) + "\n")
    return budget


def _setting(first: Any, device: torch.device, longest: int) -> str:
    """All that the best budget depends on, in words; free memory as a power of two."""
    weights = list(first.parameters())
    size, dtype = sum(weight.numel() for weight in weights), str(weights[0].dtype).removeprefix("torch.")
    attention = getattr(getattr(first, "config", None), "_attn_implementation", None) or "its own"
    facts = [machine_of(device), f"{size} weights in {dtype}", f"texts to {longest} tokens", f"attention {attention}"]
    if any(part._compiled_call_impl is not None for part in first.modules()):
        facts.append("compiled")
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        facts.append(f"2^{(_free(device) + held).bit_length() - 1} bytes free")
    return ", ".join(facts)


@cache
def _remembered(path: Path) -> dict[str, int]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {name: budget for name, budget in known.items() if isinstance(budget, int) and budget > 0}


def most_tokens(first: Any, device: torch.device) -> int:
    """The most tokens of a pass whose output of the first module is not too large, such as logits of all terms."""
    numbers = int(first.get_embedding_dimension()) if hasattr(first, "get_embedding_dimension") else 1
    return max(1, (_CPU_OUTPUT if device.type == "cpu" else _GPU_OUTPUT) // (4 * numbers))


def _timed(
    parts: Sequence[nn.Module], device: torch.device, most: int = _GPU_MOST, lengths: NDArray[np.int64] | None = None
) -> int:
    """The smallest budget that is about as fast as the best; larger ones, to `most`, are timed until they get slower.

    On a GPU the next one takes about twice the memory: it is skipped where that is more than its share.
    """
    speeds: dict[int, float] = {}
    torch.cuda.empty_cache()
    end, free = time.monotonic() + _SECONDS, _free(device)
    first, last = (1024, 32_768) if device.type == "cpu" else (16_384, _GPU_MOST)
    for budget in (first << doubling for doubling in range((last // first).bit_length())):
        if budget > most or time.monotonic() > end or 2 * (free - _free(device)) > _SHARE * free:
            break
        try:
            speeds[budget] = max(_speed(parts, device, budget, lengths) for _ in range(2))
        except torch.OutOfMemoryError:
            break
        if speeds[budget] < 0.9 * max(speeds.values()):
            break
    torch.cuda.empty_cache()
    best = max(speeds.values(), default=0.0)
    return next((budget for budget, speed in speeds.items() if speed >= _AS_GOOD * best), usual_budget(device))


def _free(device: torch.device) -> int:
    """Bytes of free memory of a GPU; 0 elsewhere."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def _speed(
    parts: Sequence[nn.Module], device: torch.device, budget: int, lengths: NDArray[np.int64] | None = None
) -> float:
    """Tokens a second, without padding, of a few passes over short and long texts."""
    packing = packing_of(parts[0]) if parts else None
    passes = _passes(
        budget, np.full(max(1, 8192 // _LENGTH, budget // _LENGTH), _LENGTH) if lengths is None else lengths, packing
    )
    features = [padded_trial(some) if packing is None else packed_trial(packing, some) for some in passes]
    forward(parts, dict(features[0]), device)
    finish(device)
    start = time.perf_counter()
    for one in features:
        forward(parts, dict(one), device)
    finish(device)
    return int(sum(some.sum() for some in passes)) / (time.perf_counter() - start)


def _passes(budget: int, lengths: NDArray[np.int64], packing: Packing | None = None) -> list[NDArray[np.int64]]:
    """The lengths of the texts of some passes, evenly taken from all passes: about 8,192 tokens, or one pass."""
    passes = [lengths[rows] for rows in batches(lengths, budget, packing)]
    count = min(len(passes), max(1, 8192 // budget))
    return [passes[len(passes) * (2 * number + 1) // (2 * count)] for number in range(count)]
