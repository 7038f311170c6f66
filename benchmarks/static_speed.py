"""Texts a second of a static encoder against a transformer's: same texts, machine and threads, in one run.

    pip install "hardneg[demo,static]"
    python benchmarks/static_speed.py [--corpus corpus.jsonl] [--passages 2048] [--slow 256] [--rounds 3]

The texts are the first of a BEIR corpus or, without one, docstrings of numpy. Each model reads of a text what it reads
by itself: a static one all of it, all-MiniLM-L6-v2 its first 256 tokens. A last line has both read the same 128. In
each round the transformer encodes a part of the texts and the static model all of them, so that a busy spell of the
machine hits both.
"""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import torch
from encode_speed import docstrings, passages

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec

OPTIONS = EncodeOptions(precision="fp32")


@dataclass
class Contestant:
    """A model, the texts it encodes in a round, and the seconds of its rounds."""

    encoder: Encoder
    texts: list[str]
    seconds: list[float]

    def run(self) -> None:
        start = time.perf_counter()
        self.encoder.encode(self.texts, "document", OPTIONS)
        self.seconds.append(time.perf_counter() - start)

    @property
    def speed(self) -> float:
        """Texts a second, in the fastest round."""
        return len(self.texts) / min(self.seconds)

    def told(self) -> str:
        lengths = self.encoder.tokenise(self.texts, "document").lengths
        return f"{self.encoder.spec.name:<28}{self.speed:10.1f} texts/s, {lengths.mean():6.0f} tokens a text read"


def compare(static: ModelSpec, other: ModelSpec, texts: list[str], slow: int, rounds: int) -> None:
    """Prints both speeds and their ratio; the slow model encodes every so-manieth of the texts."""
    every = max(1, len(texts) // slow)
    pair = [Contestant(load_learner(static), texts, []), Contestant(load_learner(other), texts[::every], [])]
    for one in pair:
        one.encoder.encode(texts[:64], "document", OPTIONS)
    for _ in range(rounds):
        for one in pair:
            one.run()
    for one in pair:
        print(" ", one.told())
    print(f"  ratio {pair[0].speed / pair[1].speed:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of a static encoder against a transformer's.")
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl of a BEIR folder")
    parser.add_argument("--passages", type=int, default=2048)
    parser.add_argument("--slow", type=int, default=256, help="texts of a round of the transformer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--static", default="packaged:wordllama")
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    options = parser.parse_args()
    texts = passages(options.corpus, options.passages) if options.corpus else docstrings("numpy", options.passages)
    words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"{len(texts)} texts of {words:.0f} words on average; {torch.get_num_threads()} threads")
    print("as each reads them")
    compare(ModelSpec(options.static), ModelSpec(options.model), texts, options.slow, options.rounds)
    print("the first 128 tokens")
    cut = [ModelSpec(name, document_length=128) for name in (options.static, options.model)]
    compare(cut[0], cut[1], texts, options.slow, options.rounds)


if __name__ == "__main__":
    main()
