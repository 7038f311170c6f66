"""Texts a second to token ids: `hardneg.encoders.tokens.tokenise` against the tokenizer's own call.

    pip install "hardneg[demo]"
    python benchmarks/tokenise_speed.py [--corpus corpus.jsonl] [--texts 4096] [--length 256] [--rounds 6]

The texts are the first of a BEIR corpus or, without one, docstrings of numpy, read from its source. In each round
every contestant reads the next `--texts` of them, so that nobody has seen a round's texts before; who goes first takes
turns. Ratios are of medians of texts a second over the rounds. Contestants:

`tokenizer(...)`: all that Hugging Face's tokenizer gives, its lists made into int64 arrays, on all cores.
`SentenceTransformer.preprocess`: batches of 32, padded, as its `encode` makes them, longest texts first.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
from encode_speed import docstrings, passages

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import tokenise

Read = Callable[[list[str]], object]


def contestants(encoder: Encoder, length: int) -> dict[str, Read]:
    """The ways to read texts, by name."""
    model: Any = encoder.module
    tokenizer = model.tokenizer

    def by_call(texts: list[str]) -> object:
        made = tokenizer(texts, truncation="longest_first", max_length=length)
        size = sum(map(len, made["input_ids"]))
        return {name: np.fromiter(chain.from_iterable(rows), np.int64, size) for name, rows in made.items()}

    def theirs(texts: list[str]) -> object:
        by_length = sorted(texts, key=len, reverse=True)
        return [model.preprocess(by_length[start : start + 32]) for start in range(0, len(texts), 32)]

    return {
        "tokenizer(...)": by_call,
        "SentenceTransformer.preprocess": theirs,
        "hardneg": lambda texts: tokenise(tokenizer, texts, length),
    }


def measure(ways: dict[str, Read], parts: list[list[str]]) -> dict[str, tuple[float, float]]:
    """For each way the medians, over parts of texts that it has not read before, of texts a second and of CPU time.

    CPU time is in microseconds a text, of all threads together: it hardly depends on what else the machine does.
    """
    speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number, texts in enumerate(parts):
        order = sorted(ways)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            start, used = time.perf_counter(), time.process_time()
            ways[name](texts)
            taken = 1e6 * (time.process_time() - used) / len(texts)
            speeds[name].append((len(texts) / (time.perf_counter() - start), taken))
    medians = {name: tuple(map(statistics.median, zip(*found, strict=True))) for name, found in speeds.items()}
    return {name: (speed, taken) for name, (speed, taken) in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of tokenising.")
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl of a BEIR folder")
    parser.add_argument("--texts", type=int, default=4096, help="of a round")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    options = parser.parse_args()
    encoder = load_learner(ModelSpec(options.model, document_length=options.length), "cpu")
    count = options.texts * options.rounds
    texts = passages(options.corpus, count) if options.corpus else docstrings("numpy", count)
    parts = [list(part) for part in np.array_split(np.array(texts, object), options.rounds)]
    lengths = encoder.tokenise(parts[0], "document").lengths
    print(f"{options.rounds} rounds of {len(parts[0])} texts, {lengths.mean():.0f} tokens on average")
    ways = contestants(encoder, options.length)
    speeds = measure(ways, parts)
    base, used = speeds["tokenizer(...)"]
    for name, (speed, taken) in speeds.items():
        ratios = f"{speed / base:5.2f} x tokenizer(...); {taken:6.1f} us of CPU a text, {used / taken:5.2f} x less"
        print(f"  {name:<36}{speed:9.0f} texts/s  {ratios}")


if __name__ == "__main__":
    main()
