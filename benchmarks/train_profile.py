"""Where the time of a training step goes.

    python benchmarks/train_profile.py [--precision bf16] [--batch 32] [--length 128] [--steps 4]

Steps of the same training as `train_speed.py`, with a positive and a negative for each query. After one to warm up the
steps are timed as they are, then one is watched by torch.profiler. Its operations are told by what they are for, as
shares of the step. Behind them: tokens a second, padding left out, and what part of a plain product's rate the forward
and backward passes reach. A token needs two operations a weight of the linear layers, and three times that with its
gradients.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from train_speed import training_data, triplets

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.infonce import InfoNCE
from hardneg.runtime import Silent
from hardneg.training import loop
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

OPTIMIZER = "Optimizer.step#AdamW.step"
KINDS = {
    "products of linear layers": ("mm", "addmm", "linear", "mkldnn_linear", "mkldnn_linear_backward", "mv"),
    "products of attention": ("bmm", "baddbmm", "_scaled_dot_product_flash_attention_for_cpu"),
    "attention besides": ("_softmax", "_softmax_backward_data", "isneginf", "where", "all", "masked_fill"),
    "draws of dropout": ("bernoulli_", "ge"),
    "norms of layers": ("native_layer_norm", "native_layer_norm_backward"),
    "gelu": ("gelu", "gelu_backward"),
    "embeddings": ("embedding", "embedding_dense_backward", "index_select"),
    "copies and casts": ("copy_", "clone", "contiguous", "cat"),
    "optimizer": ("_fused_adamw_", "_fused_adam_"),
    "norms of gradients, clipping": ("linalg_vector_norm", "_foreach_norm", "_foreach_mul_"),
    "other arithmetic": ("mul", "mul_", "add", "add_", "div", "div_", "sum", "sub", "zeros", "fill_", "zero_", "neg"),
}  # fmt: skip
BY_NAME = {name: kind for kind, names in KINDS.items() for name in names}


class Watched:
    """Takes the place of the loop's `update`: times each step, and has the profiler watch the last."""

    def __init__(self, update: Callable[..., Any], last: int) -> None:
        self._update, self._last = update, last
        self.seconds: list[float] = []
        self.events: Any = None

    def __call__(self, learner: Any, batches: Any, step: int, rate: float) -> Any:
        began = time.perf_counter()
        if step < self._last:
            done = self._update(learner, batches, step, rate)
            self.seconds.append(time.perf_counter() - began)
            return done
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            done = self._update(learner, batches, step, rate)
        self.events = seen.key_averages()
        return done


def watched(options: argparse.Namespace, encoder: Encoder) -> Watched:
    """A training that was watched."""
    steps, update = options.steps + 2, loop.update
    watch = Watched(update, steps - 1)
    settings = TrainOptions(
        batch_size=options.batch, max_steps=steps, precision=options.precision,
        checkpoint_every=None, warmup_ratio=0.0,
    )  # fmt: skip
    texts = triplets(steps * options.batch)
    try:
        loop.update = watch  # type: ignore[assignment]
        with tempfile.TemporaryDirectory() as folder:
            data = training_data(texts, Path(folder))
            train(encoder, data, InfoNCE(temperature=0.05), settings, Path(folder) / "run", progress=Silent())
    finally:
        loop.update = update
    return watch


def shares(events: Any) -> dict[str, float]:
    """Microseconds by what operations are for."""
    found: dict[str, float] = defaultdict(float)
    for event in events:
        name = event.key.removeprefix("aten::")
        found[BY_NAME.get(name, "the rest, Python among it")] += event.self_cpu_time_total
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def product_rate(half: bool, tokens: int, inner: int, outer: int) -> float:
    """Operations a second of one product of these sizes, best of several."""
    kind = torch.bfloat16 if half else torch.float32
    left, right = torch.randn(tokens, inner, dtype=kind), torch.randn(inner, outer, dtype=kind)
    taken = []
    for _ in range(8):
        began = time.perf_counter()
        left @ right
        taken.append(time.perf_counter() - began)
    return 2 * tokens * inner * outer / min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of a training step goes.")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--steps", type=int, default=4, help="timed ones")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2", help="a folder, a hub id, or a packaged model")
    options = parser.parse_args()
    encoder = load_learner(ModelSpec(options.model, query_length=options.length, document_length=options.length), "cpu")
    texts = triplets(options.steps * options.batch)
    began = time.perf_counter()
    columns = zip(zip(*texts, strict=True), SIDES, strict=True)
    lengths = [encoder.tokenise(column, kind).lengths for column, kind in columns]
    tokenising = (time.perf_counter() - began) / options.steps
    watch = watched(options, encoder)
    step, found = statistics.median(watch.seconds[1:]), shares(watch.events)
    print(f"{options.precision}: {step:.2f} s a step of {options.batch} queries")
    for kind, taken in found.items():
        print(f"  {kind:<32}{100 * taken / sum(found.values()):6.1f} %")
    tokens = sum(int(column.sum()) for column in lengths) / options.steps
    linear = [part for part in encoder.module.modules() if isinstance(part, nn.Linear)]
    largest = max(linear, key=lambda part: part.weight.numel())
    rate = product_rate(options.precision == "bf16", options.batch * options.length, *largest.weight.shape[::-1])
    passes = 1 - sum(found.get(kind, 0.0) for kind in AFTER) / sum(found.values())
    reached = 6 * sum(part.weight.numel() for part in linear) * tokens / (step * passes)
    print(f"  {tokens / step:,.0f} tokens/s; they are tokenised in {tokenising:.3f} s, ahead of the step")
    print(f"  one product: {rate / 1e9:,.0f} GFLOP/s, of which forward and backward reach {100 * reached / rate:.0f} %")


SIDES = ("query", "document", "document")
AFTER = ("optimizer", "norms of gradients, clipping")


if __name__ == "__main__":
    main()
