"""Peak memory of one large batch by gradient caching against the plain batch, and how it grows with the batch.

    python benchmarks/gradient_cache_memory.py [--queries 1024] [--chunk 32] [--length 32] [--model NAME] [--no-plain]

Each measurement is a process of its own, which takes two steps of training: on a CPU its largest resident size, on a
GPU the most that torch allocated. Each query has a positive and a negative of `length` tokens.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.losses.infonce import InfoNCE
from hardneg.records import Document, Negatives
from hardneg.runtime import Silent
from hardneg.training.examples import TrainingData
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

Precision = Literal["auto", "fp32", "bf16"]


def measure(queries: int, chunk: int | None, length: int, model: str, precision: Precision) -> None:
    """Trains, and prints MiB before training and at its peak, and the seconds of the second step."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        data = _data(Path(folder), queries, length)
        encoder = load_learner(ModelSpec(model, query_length=length, document_length=length))
        before = _peak(encoder.device)
        settings = TrainOptions(
            batch_size=queries, max_steps=2, chunk=chunk, precision=precision, warmup_ratio=0.0, checkpoint_every=None
        )
        began = time.monotonic()
        train(encoder, data, InfoNCE(temperature=0.05), settings, Path(folder) / "run", progress=Silent())
        print(json.dumps([before, _peak(encoder.device), (time.monotonic() - began) / 2]))


def _data(folder: Path, queries: int, length: int) -> TrainingData:
    """As many passages as queries, and as many negatives, of random numbers, which have a token each at least."""
    draw = np.random.default_rng(0)
    texts = [" ".join(map(str, row)) for row in draw.integers(0, 100, (3 * queries, length)).tolist()]
    write_corpus((Document(f"d{row}", text) for row, text in enumerate(texts[queries:])), folder, Silent())
    ids = [f"q{row}" for row in range(queries)]
    lists = [
        Negatives(f"q{row}", [f"d{row}"], [f"d{queries + row}"], np.zeros(1, np.float32)) for row in range(queries)
    ]
    write_negatives(folder / "negatives.arrow", lists)
    negatives = read_negatives(folder / "negatives.arrow")
    positives = {row.query_id: row.positives for row in lists}
    return TrainingData(Corpus.open(folder), ids, texts[:queries], positives, negatives)


def _peak(device: torch.device) -> float:
    """MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / (1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


def measured(given: argparse.Namespace, queries: int, chunk: int | None) -> tuple[float, float]:
    """The peak MiB of another process, and the part of it that training brought; both are printed too."""
    command = [sys.executable, __file__, "--measure", str(queries), str(chunk or 0)]
    command += ["--length", str(given.length), "--model", given.model, "--precision", given.precision]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    before, peak, seconds = json.loads(told.splitlines()[-1])
    way = "plain" if chunk is None else f"{-(-queries // chunk)} chunks of {chunk}"
    print(f"{queries:>6} queries, {way:<20} {peak:9.0f} MiB ({before:.0f} before training)  {seconds:7.1f} s a step")
    sys.stdout.flush()
    return peak, peak - before


def compare(what: str, these: tuple[float, float], others: tuple[float, float]) -> None:
    """Prints one line of ratios."""
    print(f"{what}: {these[0] / others[0]:.2f} times the memory, {these[1] / others[1]:.2f} times what training brings")


def main() -> None:
    """Measures a plain batch of one chunk, growing cached batches, and the whole plain batch; prints ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--chunk", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    parser.add_argument("--precision", default="fp32", choices=["auto", "fp32", "bf16"])
    parser.add_argument("--no-plain", action="store_true", help="leave out the whole plain batch, which may not fit")
    parser.add_argument("--measure", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        queries, chunk = given.measure
        return measure(queries, chunk or None, given.length, given.model, given.precision)
    small = measured(given, given.chunk, None)
    sizes = [size for power in range(2, 20, 2) if (size := given.chunk << power) < given.queries]
    cached = [measured(given, size, given.chunk) for size in [*sizes, given.queries]]
    compare(f"cached against a plain batch of {given.chunk}", cached[-1], small)
    compare("the largest cached batch against the smallest", cached[-1], cached[0])
    if not given.no_plain:
        compare("plain against cached", measured(given, given.queries, None), cached[-1])
    return None


if __name__ == "__main__":
    main()
