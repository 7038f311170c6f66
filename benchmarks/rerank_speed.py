"""Pairs a second of reranking against one `CrossEncoder.predict` a query: one network, one process, the same pairs.

    pip install "hardneg[demo]"
    python benchmarks/rerank_speed.py [--dataset FOLDER] [--queries 40] [--depth 50] [--length 160] [--rounds 2]

The pairs are the first queries of a BEIR folder with documents drawn from its corpus or, without a folder, first lines
of numpy's docstrings with docstrings. A network with a fresh head serves: speed does not depend on the weights. In each
round every contestant scores the next part of the queries, so that a busy spell of the machine hits all alike; each
part's time is the best of two. The peer has its own batches of 32, in float32 and with bfloat16 weights.

In float32 scores must agree to 1e-3; in bfloat16 the largest difference of probabilities is told.
"""

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import torch
from encode_speed import docstrings, passages
from numpy.typing import NDArray

from hardneg.encoders.protocol import EncodeOptions
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer, Request

Score = Callable[[Sequence[Request]], NDArray[np.float32]]
SAME = 1e-3
PEER = "CrossEncoder.predict a query, fp32"


def requests(folder: Path | None, queries: int, depth: int) -> list[Request]:
    """Queries with documents drawn by a fixed seed."""
    if folder is None:
        texts = docstrings("numpy", 20 * depth)
        asked = [text.split("\n")[0] for text in texts[:queries]]
    else:
        texts = passages(folder / "corpus.jsonl", 20 * depth)
        with (folder / "queries.jsonl").open(encoding="utf-8") as file:
            asked = [json.loads(line)["text"] for line in islice(file, queries)]
    draws = np.random.default_rng(0)
    return [(query, [texts[row] for row in draws.choice(len(texts), depth, replace=False)]) for query in asked]


def contestants(source: str, length: int) -> dict[str, Score]:
    """The ways to score, by name; the peer's come first."""
    network = CrossEncoder(source, length=length).load()

    def theirs(model: torch.nn.Module) -> Score:
        def score(asked: Sequence[Request]) -> NDArray[np.float32]:
            found = [
                model.predict([(query, text) for text in texts], show_progress_bar=False) for query, texts in asked
            ]
            return np.concatenate(found).astype(np.float32)

        return score

    def ours(options: EncodeOptions) -> Score:
        scorer = PairScorer.of(network, None, options)
        return lambda asked: np.concatenate([np.asarray(scores, np.float32) for scores in scorer.rerank(asked)])

    mine = {f"hardneg, {name}": ours(EncodeOptions(precision=name)) for name in ("fp32", "bf16")}
    half = copy.deepcopy(network).to(torch.bfloat16)
    return {PEER: theirs(network), "CrossEncoder.predict a query, bf16": theirs(half), **mine}


def measure(ways: dict[str, Score], asked: Sequence[Request], rounds: int) -> dict[str, float]:
    """Pairs a second of each way, over `rounds` parts of the queries."""
    spent = dict.fromkeys(ways, 0.0)
    for score in ways.values():
        score(asked[:1])
    for rows in np.array_split(np.arange(len(asked)), rounds):
        part = [asked[row] for row in rows]
        taken = [{name: _seconds(score, part) for name, score in ways.items()} for _ in range(2)]
        for name in ways:
            spent[name] += min(one[name] for one in taken)
    pairs = sum(len(texts) for _, texts in asked)
    return {name: pairs / seconds for name, seconds in spent.items()}


def _clock() -> float:
    """Seconds; with one thread those of the processor, to which other work on the machine adds little."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _seconds(score: Score, asked: Sequence[Request]) -> float:
    start = _clock()
    score(asked)
    return _clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of reranking against sentence-transformers.")
    parser.add_argument("--dataset", type=Path, help="a BEIR folder")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--length", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2", help="a folder, a hub id, or a packaged model")
    options = parser.parse_args()
    asked, ways = requests(options.dataset, options.queries, options.depth), contestants(options.model, options.length)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{len(asked)} queries of {options.depth} documents, cut to {options.length} tokens a pair")
    print(f"{device}, {torch.get_num_threads()} threads")
    speeds = measure(ways, asked, options.rounds)
    exact = ways[PEER](asked)
    apart = {name: float(np.abs(score(asked) - exact).max()) for name, score in ways.items()}
    for name, speed in speeds.items():
        print(f"  {name:<36}{speed:8.1f} pairs/s  {speed / speeds[PEER]:5.2f} x; largest difference {apart[name]:.1e}")
    if apart["hardneg, fp32"] > SAME:
        sys.exit(f"scores differ by more than {SAME:g}")


if __name__ == "__main__":
    main()
