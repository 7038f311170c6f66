"""What each kind of encoder costs: encoding, disk, training and search, side by side in one run.

    pip install "hardneg[demo]"
    python benchmarks/kinds_speed.py [--passages 2000] [--queries 200] [--steps 6] [--length 64] [--static NAME]

The texts are docstrings of numpy and scipy. All kinds but the static one start from all-MiniLM-L6-v2's transformer;
no weights matter here but those of the sparse kind, whose untrained head gives more terms than a trained one.

A step is one of `train`: 16 queries, a positive and a negative each, InfoNCE. A search is one query at a time: encoded,
and searched for exactly among all passages. Each figure is the median of its rounds; kinds take turns.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from train_speed import OneNegative, Triplets, triplets

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.stream import write_index
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.vectors import index_bytes
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.losses.infonce import InfoNCE
from hardneg.records import Document, PluginSetting
from hardneg.runtime import Silent, World
from hardneg.training.examples import TrainingData
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

OPTIONS = EncodeOptions(precision="fp32")
KINDS = {
    "dense": None,
    "static": PluginSetting("static"),
    "sparse": PluginSetting("sparse"),
    "multi-vector": PluginSetting("multi-vector", {"dimension": 128}),
}


@dataclass
class Kind:
    """A kind, its model, and its figures: seconds to encode all passages, of a step and of a query; bytes on disk."""

    name: str
    spec: ModelSpec
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, figure: str, value: float) -> None:
        self.figures.setdefault(figure, []).append(value)

    def median(self, figure: str) -> float:
        return statistics.median(self.figures[figure])


def encode_and_search(kind: Kind, corpus: Corpus, queries: Sequence[str], folder: Path) -> None:
    """One round of encoding the corpus and of searching it."""
    encoder = load_learner(kind.spec)
    encoder.encode(queries[:8], "query", OPTIONS)
    start = time.perf_counter()
    write_index([encoder], encoder.rows(corpus, None, folder, Silent(), World()), folder, OPTIONS, Silent())
    kind.note("encode", time.perf_counter() - start)
    for path in folder.glob("tokens-*.npy"):
        path.unlink()
    kind.note("bytes", index_bytes(folder))
    searcher = open_store(folder, ExactOptions(device="cpu"))
    searcher.search(encoder.encode(queries[:1], "query", OPTIONS), 100)
    start = time.perf_counter()
    for query in queries:
        searcher.search(encoder.encode([query], "query", OPTIONS), 100)
    kind.note("search", (time.perf_counter() - start) / len(queries))


def train_steps(kind: Kind, corpus: Corpus, texts: Triplets, steps: int, folder: Path) -> None:
    """One round of training: so many steps more than one, so that what comes before and behind them is left out."""
    negatives = OneNegative(len(texts))
    positives = {f"q{row}": [f"d{row}"] for row in range(len(texts))}
    data = TrainingData(corpus, negatives.query_ids, [query for query, _, _ in texts], positives, negatives)

    def timed(count: int) -> float:
        settings = TrainOptions(batch_size=16, negatives_per_query=1, max_steps=count, precision="fp32")
        encoder = load_learner(kind.spec)
        start = time.perf_counter()
        train(encoder, data, InfoNCE(), settings, folder / str(count), progress=Silent())
        return time.perf_counter() - start

    kind.note("step", (timed(1 + steps) - timed(1)) / steps)


def in_turn(kinds: Sequence[Kind], rounds: int, measure: Callable[[Kind, Path], None]) -> None:
    for _ in range(rounds):
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                measure(kind, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description="What each kind of encoder costs.")
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--length", type=int, default=64, help="tokens of a passage that a transformer reads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    parser.add_argument("--static", default="packaged:wordllama")
    options = parser.parse_args()
    texts = triplets(options.passages)
    lengths = {"query_length": 32, "document_length": options.length}
    kinds = [
        Kind(name, ModelSpec(options.static if name == "static" else options.model, encoder=encoder, **lengths))
        for name, encoder in KINDS.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_corpus((Document(f"d{row}", text) for row, (_, text, _) in enumerate(texts)), Path(folder), Silent())
        corpus, queries = Corpus.open(Path(folder)), [query for query, _, _ in texts[: options.queries]]
        in_turn(kinds, options.rounds, lambda kind, place: encode_and_search(kind, corpus, queries, place / "index"))
        in_turn(kinds, options.rounds, lambda kind, place: train_steps(kind, corpus, texts, options.steps, place))
    print(f"{len(texts)} passages, {torch.get_num_threads()} threads")
    print(f"{'':14}{'passages/s':>12}{'bytes/passage':>15}{'ms/step':>10}{'ms/query':>10}")
    for kind in kinds:
        speed, size = len(texts) / kind.median("encode"), kind.median("bytes") / len(texts)
        step, search = 1e3 * kind.median("step"), 1e3 * kind.median("search")
        print(f"{kind.name:14}{speed:12.0f}{size:15.0f}{step:10.0f}{search:10.1f}")


if __name__ == "__main__":
    main()
