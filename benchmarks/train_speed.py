"""Training pairs a second against `SentenceTransformerTrainer` with `MultipleNegativesRankingLoss`.

    pip install "hardneg[demo]"
    python benchmarks/train_speed.py [--steps 20] [--batch 32] [--length 128] [--rounds 5] [--model NAME]

The same triplets (a docstring's first line, the rest of it, the rest of another one), model, lengths, batch size,
optimizer and loss (softmax over all positives and negatives of the batch, scale 20). Contestants take turns; each
is a training run in a process of its own, of which the median step from the second on counts; each figure is the median
of the rounds.
`st-` are those of sentence-transformers.
"""

import argparse
import ast
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.losses.infonce import InfoNCE
from hardneg.records import Document
from hardneg.runtime import Silent
from hardneg.training.examples import TrainingData
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

Triplets = list[tuple[str, str, str]]


class OneNegative:
    """A negative for each query: the passage of the next one."""

    def __init__(self, count: int) -> None:
        self.query_ids = [f"q{row}" for row in range(count)]
        self.counts: NDArray[np.int64] = np.ones(count, np.int64)

    def pick(self, row: int, places: NDArray[np.int64]) -> list[str]:
        """The negatives of one row at the given places."""
        return [f"d{(row + 1) % len(self.query_ids)}" for _ in places]


def triplets(count: int) -> Triplets:
    """First line, rest, and the rest of the next: numpy's and scipy's docstrings, shuffled by a fixed seed."""
    found = dict.fromkeys(pair for package in ("numpy", "scipy") for pair in _docstrings(package))
    pairs = [list(found)[row] for row in np.random.default_rng(0).permutation(len(found))[:count]]
    return [(query, passage, pairs[(row + 1) % len(pairs)][1]) for row, (query, passage) in enumerate(pairs)]


def _docstrings(package: str) -> Iterator[tuple[str, str]]:
    spec = importlib.util.find_spec(package)
    for root in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(root).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
                    if len(rest) > 100:
                        yield first, rest


def training_data(texts: Triplets, folder: Path) -> TrainingData:
    """The triplets as hardneg has them, with their corpus in `folder`."""
    documents = (Document(f"d{row}", passage) for row, (_, passage, _) in enumerate(texts))
    write_corpus(documents, folder, Silent())
    negatives = OneNegative(len(texts))
    positives = {f"q{row}": [f"d{row}"] for row in range(len(texts))}
    queries = [query for query, _, _ in texts]
    return TrainingData(Corpus.open(folder), negatives.query_ids, queries, positives, negatives)


class Clock(Silent):
    """A progress display that notes when each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    @contextmanager
    def task(self, *given: Any, **named: Any) -> Iterator[Any]:
        yield self

    def advance(self, count: int = 1) -> None:
        self.ends.append(time.perf_counter())

    def describe(self, text: str) -> None:
        pass


def ours(texts: Triplets, options: argparse.Namespace, precision: str) -> list[float]:
    """hardneg's loop; when each step ended."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        data = training_data(texts, Path(folder))
        spec = ModelSpec(options.model, query_length=options.length, document_length=options.length)
        settings = TrainOptions(
            batch_size=options.batch, max_steps=options.steps, precision=precision, warmup_ratio=0.0
        )
        encoder = load_learner(spec)
        train(encoder, data, InfoNCE(temperature=0.05), settings, Path(folder) / "run", progress=clock)
    return clock.ends


def theirs(texts: Triplets, options: argparse.Namespace, half: bool) -> list[float]:
    """sentence-transformers' trainer; when each step ended."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    ends: list[float] = []

    class Ended(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *given: Any, **named: Any) -> None:
            ends.append(time.perf_counter())

    model = load_learner(ModelSpec(options.model, document_length=options.length)).module
    model.max_seq_length = options.length
    columns = zip(*texts, strict=True)
    rows = Dataset.from_dict(dict(zip(("anchor", "positive", "negative"), map(list, columns), strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            folder, per_device_train_batch_size=options.batch, max_steps=options.steps, learning_rate=2e-5,
            weight_decay=0.01, bf16=half, report_to="none", save_strategy="no", logging_strategy="no",
            disable_tqdm=True, use_cpu=not torch.cuda.is_available(),
        )  # fmt: skip
        loss = MultipleNegativesRankingLoss(model)
        trainer = SentenceTransformerTrainer(
            model=model, args=settings, train_dataset=rows, loss=loss, callbacks=[Ended()]
        )
        trainer.train()
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of training against sentence-transformers.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2", help="a folder, a hub id, or a packaged model")
    parser.add_argument("--only", choices=tuple(WAYS), help="one contestant, once: its seconds a step")
    options = parser.parse_args()
    texts = triplets(options.steps * options.batch)
    if options.only:
        ends = WAYS[options.only](texts, options)
        print(statistics.median(after - before for before, after in pairwise(ends)))
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{len(texts)} triplets, batches of {options.batch}, {device}, {torch.get_num_threads()} threads")
    rounds = []
    for number in range(options.rounds):
        rounds.append({name: apart(name) for name in WAYS})
        print(f"  round {number + 1}: {', '.join(f'{name} {taken:.2f} s' for name, taken in rounds[-1].items())}")
    for name in WAYS:
        to = [statistics.median(one[base] / one[name] for one in rounds) for base in ("st-fp32", "st-bf16")]
        speed = statistics.median(options.batch / one[name] for one in rounds)
        print(f"  {name:<24}{speed:7.1f} pairs/s   {to[0]:5.2f} x its default, {to[1]:5.2f} x its bf16")


WAYS: dict[str, Callable[[Triplets, argparse.Namespace], list[float]]] = {
    "st-fp32": lambda texts, options: theirs(texts, options, half=False),
    "st-bf16": lambda texts, options: theirs(texts, options, half=True),
    "fp32": lambda texts, options: ours(texts, options, "fp32"),
    "bf16": lambda texts, options: ours(texts, options, "bf16"),
}


def apart(name: str) -> float:
    """Seconds a step of one contestant in a process of its own: what it does to the process's memory ends with it."""
    command = [sys.executable, *sys.argv, "--only", name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def seconds(way: Callable[[], object]) -> float:
    """How long one training run takes; accelerate's state, which is one for a process, begins anew."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
