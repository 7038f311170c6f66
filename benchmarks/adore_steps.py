"""Steps a second of stage `train-queries` against a plain loop with the steps of ADORE's published program.

    pip install "hardneg[demo]"
    python benchmarks/adore_steps.py [--steps 40] [--batch 32] [--depth 200] [--documents 6000] [--rounds 3]

The same model, index, queries, lengths, batch size, loss and optimizer. The plain loop encodes a batch, searches a
faiss `IndexFlatIP` with it, and then goes through the queries one by one: labels by `isin`, positives behind a list
that has none, vectors fetched on the CPU and brought to the device, one loss a query. Contestants take turns; the
index is built and opened before the clock starts, and each figure is the median of the rounds. hardneg's time has a
checkpoint with the optimizer's state in it, written at the end; the plain loop saves nothing.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.datasets.pydocs import PyDocs
from hardneg.encoders.encoder import split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes.exact import ExactOptions, FlatSearcher
from hardneg.losses.pairwise import LambdaLoss
from hardneg.runtime import Silent
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.loop import learn
from hardneg.training.methods.adore import AdoreTraining, Searched
from hardneg.training.options import TrainOptions

SPEC = ModelSpec("packaged:all-MiniLM-L6-v2", query_length=64, document_length=128)


def prepare(folder: Path, documents: int) -> TrainingData:
    """The corpus and its flat index in `folder`, and the queries of the split `train`."""
    collection = PyDocs(max_passages=documents).load()
    write_corpus(collection.documents(), folder / "corpus", Silent())
    corpus = Corpus.open(folder / "corpus")
    vectors = load_learner(SPEC).encode(corpus.contents(np.arange(len(corpus))), "document")
    with FlatWriter(folder / "index", vectors.shape[1], len(corpus)) as writer:
        writer.write(vectors)
        writer.write_doc_ids(corpus.doc_ids)
        writer.close()
    positives: dict[str, list[str]] = {}
    for judgement in collection.qrels("train"):
        positives.setdefault(judgement.query_id, []).append(judgement.doc_id)
    queries = [query for query in collection.queries("train") if query.query_id in positives]
    return TrainingData(corpus, [item.query_id for item in queries], [item.text for item in queries], positives)


def ours(folder: Path, data: TrainingData, options: argparse.Namespace, precision: str) -> Callable[[], str]:
    """hardneg's loop, ready to start."""
    encoder = split(load_learner(SPEC))
    searcher = FlatSearcher(FlatVectors.open(folder / "index"), options=ExactOptions())
    searcher.search(np.zeros((1, encoder.dimension), np.float32), 1)
    settings = TrainOptions(
        batch_size=options.batch, max_steps=options.steps, precision=precision, learning_rate=5e-6, warmup_ratio=0.0
    )
    way = AdoreTraining(
        encoder=encoder,
        examples=Examples(data, 0, 42),
        searcher=searcher,
        index="benchmark",
        content_hash=data.corpus.content_hash,
        source=Searched(searcher, options.depth),
    )

    def start() -> str:
        with tempfile.TemporaryDirectory() as place:
            learn(way, LambdaLoss(cut=options.depth), settings, Path(place), progress=Silent())
        return ""

    return start


def plain(folder: Path, data: TrainingData, options: argparse.Namespace) -> Callable[[], str]:
    """The plain loop, ready to start."""
    encoder = split(load_learner(SPEC))
    vectors = FlatVectors.open(folder / "index").vectors
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    tower = torch.nn.ModuleList(encoder.parts("query"))
    optimizer = torch.optim.AdamW(tower.parameters(), lr=5e-6, weight_decay=0.01, eps=1e-8)
    order = np.random.default_rng(42).permutation(len(data.query_ids))
    positives = [data.corpus.rows(data.positives[query_id]) for query_id in data.query_ids]

    def step(number: int) -> None:
        chosen = np.take(order, range(number * options.batch, (number + 1) * options.batch), mode="wrap").tolist()
        queries = encoder.embed(encoder.features([data.texts[row] for row in chosen], "query"), "query")
        _, lists = index.search(queries.detach().cpu().numpy(), options.depth)
        total = torch.zeros((), device=encoder.device)
        for query, row, found in zip(queries, chosen, lists, strict=True):
            total = total + one_query(query, found, positives[row], vectors)
        (total / options.batch).backward()
        torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def start() -> str:
        tower.train()
        for number in range(options.steps):
            step(number)
        return ""

    return start


def one_query(
    query: Tensor, found: NDArray[np.int64], known: NDArray[np.int64], vectors: NDArray[np.float32]
) -> Tensor:
    """The loss of one query against its list."""
    labels = np.isin(found, known)
    if not labels.any():
        found, labels = np.concatenate([found, known]), np.append(labels, np.ones(len(known), bool))
    documents = torch.from_numpy(np.array(vectors[found])).to(query.device)
    scores = documents @ query
    relevant = torch.from_numpy(labels).to(query.device)
    worth = 1 / torch.arange(1, len(found) + 1, device=query.device, dtype=torch.float32)
    worth[200:] = 0
    pairs = (relevant[:, None] & ~relevant[None, :]).float()
    weights = (worth[:, None] - worth[None, :]).abs()
    losses = torch.nn.functional.softplus(scores[None, :] - scores[:, None])
    return (pairs * weights * losses).sum() / pairs.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of query-side training against a plain loop.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--depth", type=int, default=200)
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = prepare(folder, options.documents)
        print(f"{len(data.corpus)} passages, {len(data.query_ids)} queries, batches of {options.batch}, {device}")
        ways: dict[str, Callable[[], Callable[[], str]]] = {
            "plain loop, fp32": lambda: plain(folder, data, options),
            "hardneg, fp32": lambda: ours(folder, data, options, "fp32"),
            "hardneg, bf16": lambda: ours(folder, data, options, "bf16"),
        }
        rounds = [{name: seconds(way()) for name, way in ways.items()} for _ in range(options.rounds)]
    for name in ways:
        speed = statistics.median(options.steps / one[name][0] for one in rounds)
        ratio = statistics.median(one["plain loop, fp32"][0] / one[name][0] for one in rounds)
        print(f"  {name:<20}{speed:8.2f} steps/s   {ratio:5.2f} x the plain loop   {rounds[-1][name][1]}")


def seconds(start: Callable[[], str]) -> tuple[float, str]:
    """How long a run takes, and what it says; accelerate's state, which is one for a process, begins anew."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    began = time.perf_counter()
    told = start()
    return time.perf_counter() - began, told


if __name__ == "__main__":
    main()
