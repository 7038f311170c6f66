"""Passages a second of `Encoder.encode` against `SentenceTransformer.encode`: one model, one process.

    pip install "hardneg[demo]"
    python benchmarks/encode_speed.py [--corpus corpus.jsonl] [--passages 2048] [--length 256] [--rounds 4]

The texts are the first of a BEIR corpus or, without one, docstrings of numpy, read from its source. In each
round every contestant encodes the next part of them, so that a busy spell of the machine hits all alike; each
part's time is the best of two. The peer has its own batches of 32, in float32 and with bfloat16 weights.
"""

import argparse
import ast
import copy
import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.spec import ModelSpec

Encode = Callable[[list[str]], NDArray[np.float32]]


def passages(path: Path, count: int) -> list[str]:
    """Title and text of the first lines of a BEIR corpus."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in islice(file, count)]
    return [f"{row.get('title', '')} {row['text']}".strip() for row in rows]


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


def contestants(encoder: Encoder) -> dict[str, Encode]:
    """The ways to encode, by name; the peer's two come first."""
    half = copy.deepcopy(encoder.module).to(torch.bfloat16)

    def theirs(model: torch.nn.Module) -> Encode:
        def encode(texts: list[str]) -> NDArray[np.float32]:
            vectors: NDArray[np.float32] = model.encode(texts, convert_to_tensor=True).float().cpu().numpy()
            return vectors

        return encode

    def ours(options: EncodeOptions) -> Encode:
        return lambda texts: encoder.encode(texts, "document", options)

    ways = {
        "SentenceTransformer.encode, default (fp32)": theirs(encoder.module),
        "SentenceTransformer.encode, bf16": theirs(half),
        "hardneg, fp32": ours(EncodeOptions(precision="fp32")),
        "hardneg, bf16": ours(EncodeOptions(precision="bf16")),
    }
    return ways | {
        f"hardneg, bf16, {tokens} tokens a pass": ours(EncodeOptions(tokens, "bf16")) for tokens in (1024, 4096, 16384)
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
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl of a BEIR folder")
    parser.add_argument("--passages", type=int, default=2048)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    options = parser.parse_args()
    encoder = Encoder.load(ModelSpec(options.model, document_length=options.length))
    texts = passages(options.corpus, options.passages) if options.corpus else docstrings("numpy", options.passages)
    lengths = encoder.tokenise(texts, "document").lengths
    print(f"{len(texts)} passages of {lengths.mean():.0f} tokens on average, at most {options.length}")
    print(f"{encoder.device}, {torch.get_num_threads()} threads")
    ways = contestants(encoder)
    speeds = measure(ways, texts, options.rounds)
    bases = list(speeds.values())[:2]
    exact = ways["SentenceTransformer.encode, default (fp32)"](texts[:256])
    for name, speed in speeds.items():
        cosine = float((ways[name](texts[:256]) * exact).sum(axis=1).mean())
        ratios = f"{speed / bases[0]:5.2f} x its default, {speed / bases[1]:5.2f} x its bf16"
        print(f"  {name:<44}{speed:8.1f} passages/s  {ratios}; mean cosine {cosine:.6f}")


if __name__ == "__main__":
    main()
