"""Passages a second of `Encoder.encode` against `SentenceTransformer.encode`: one model, one process.

    pip install "hardneg[demo]"
    python benchmarks/encode_speed.py [--passages 1000] [--length 256] [--rounds 4]

The texts are docstrings of numpy, read from its source. In each round every contestant encodes the next part
of them, so that a busy spell of the machine hits all alike; each part's time is the best of two. Ratios are
to `SentenceTransformer.encode(batch_size=32)` at the same precision.
"""

import argparse
import ast
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.models.precision import good_at_bf16
from hardneg.models.spec import ModelSpec

Encode = Callable[[list[str]], NDArray[np.float32]]


def docstrings(package: str, count: int) -> list[str]:
    """The first `count` different docstrings of a package, shuffled by a fixed seed."""
    found = importlib.util.find_spec(package)
    root = Path((found.submodule_search_locations or [])[0]) if found else Path()
    texts = list(dict.fromkeys(text for path in sorted(root.rglob("*.py")) for text in _in_file(path)))
    return [texts[row] for row in np.random.default_rng(0).permutation(len(texts))[:count]]


def _in_file(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            yield from filter(None, [ast.get_docstring(node)])


def contestants(encoder: Encoder, precision: str) -> dict[str, Encode]:
    """The ways to encode, by name; all of them under the same autocast."""
    half = precision == "bf16"

    def theirs(size: int) -> Encode:
        def encode(texts: list[str]) -> NDArray[np.float32]:
            with torch.autocast(encoder.device.type, torch.bfloat16, half):
                vectors = encoder.module.encode(texts, batch_size=size, convert_to_tensor=True)
            return vectors.float().cpu().numpy()

        return encode

    def ours(tokens: int) -> Encode:
        options = EncodeOptions(tokens, "bf16" if half else "fp32")
        return lambda texts: encoder.encode(texts, "document", options)

    return {
        "SentenceTransformer.encode(batch_size=32)": theirs(32),
        "SentenceTransformer.encode(batch_size=128)": theirs(128),
        "hardneg, 1024 tokens a batch": ours(1024),
        "hardneg, default": ours(EncodeOptions.tokens_per_batch),
    }


def measure(ways: dict[str, Encode], texts: list[str], rounds: int) -> dict[str, float]:
    """Passages a second of each way, over `rounds` parts of the texts."""
    spent = dict.fromkeys(ways, 0.0)
    for encode in ways.values():
        encode(texts[:64])
    for rows in np.array_split(np.arange(len(texts)), rounds):
        part = [texts[row] for row in rows]
        taken = [{name: _seconds(encode, part) for name, encode in ways.items()} for _ in range(2)]
        for name in ways:
            spent[name] += min(one[name] for one in taken)
    return {name: len(texts) / seconds for name, seconds in spent.items()}


def _seconds(encode: Encode, texts: list[str]) -> float:
    start = time.perf_counter()
    encode(texts)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of encoding against sentence-transformers.")
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    options = parser.parse_args()
    encoder = Encoder.load(ModelSpec(options.model, document_length=options.length))
    texts = docstrings("numpy", options.passages)
    lengths = encoder.tokenise(texts, "document").lengths
    print(f"{len(texts)} passages of {lengths.mean():.0f} tokens on average, at most {options.length}")
    print(f"{encoder.device}, {torch.get_num_threads()} threads, bf16 units: {good_at_bf16(encoder.device)}")
    for precision in ("fp32", "bf16"):
        ways = contestants(encoder, precision)
        speeds = measure(ways, texts, options.rounds)
        base = next(iter(speeds.values()))
        vectors = [encode(texts[:200]) for encode in ways.values()]
        cosine = min(float((one * vectors[0]).sum(axis=1).min()) for one in vectors)
        print(f"\n{precision} (lowest cosine between any two vectors of one text: {cosine:.6f})")
        for name, speed in speeds.items():
            print(f"  {name:<45} {speed:8.1f} passages/s  {speed / base:5.2f} x")


if __name__ == "__main__":
    main()
