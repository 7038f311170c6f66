"""Passages a second of `Encoder.encode` against `SentenceTransformer.encode`: one model, one process.

    pip install "hardneg[demo]"
    python benchmarks/encode_speed.py [--corpus corpus.jsonl] [--passages 2048] [--length 256] [--rounds 4]

The texts are the first of a BEIR corpus or, without one, docstrings of numpy, read from its source. In each
round every contestant encodes the next part of them, so that a busy spell of the machine hits all alike; each
part's time is the best of two. The peer has its own batches of 32, in float32, with bfloat16 weights and, where
`sentence-transformers[onnx]` is installed, with int8 weights by ONNX Runtime.

Useful work is what a transformer multiplies for real tokens, in its linear layers and its attention. Its rate is told
beside that of `torch.mm` on matrices of 2,048 tokens in the shapes of the model's own linear layers.
"""

import argparse
import ast
import copy
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
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


def in_int8(encoder: Encoder, folder: Path) -> dict[str, Encode]:
    """The peer's dynamic int8 by ONNX Runtime, where it is installed."""
    if importlib.util.find_spec("optimum") is None or importlib.util.find_spec("onnxruntime") is None:
        print("int8 by ONNX Runtime: left out, sentence-transformers[onnx] is not installed")
        return {}
    from onnxruntime import SessionOptions
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    encoder.module.save_pretrained(str(folder))
    exported = SentenceTransformer(str(folder), backend="onnx", device="cpu", model_kwargs={"export": True})
    exported.save_pretrained(str(folder))
    export_dynamic_quantized_onnx_model(exported, "avx512_vnni", str(folder))
    name = {"file_name": "onnx/model_qint8_avx512_vnni.onnx", "session_options": options}
    model = SentenceTransformer(str(folder), backend="onnx", device="cpu", model_kwargs=name)
    model.max_seq_length = encoder.spec.document_length
    return {"SentenceTransformer.encode, int8 by ONNX": lambda texts: np.asarray(model.encode(texts), np.float32)}


def useful_work(encoder: Encoder, lengths: NDArray[np.int64]) -> float:
    """Floating-point operations for real tokens: 2 for each weight of a linear layer, and 4 d n of attention."""
    transformer: Any = encoder.parts("document")[0].model
    layers = [part for part in transformer.encoder.modules() if isinstance(part, torch.nn.Linear)]
    weights, config = sum(layer.weight.numel() for layer in layers), transformer.config
    attended = 4 * config.num_hidden_layers * config.hidden_size * (lengths.astype(float) ** 2).sum()
    return float(2 * weights * lengths.sum() + attended)


def matmul_rate(encoder: Encoder, dtype: torch.dtype) -> float:
    """Operations a second of torch.mm for 2,048 tokens in the shapes of all linear layers, the best of five each."""
    transformer: Any = encoder.parts("document")[0].model
    shapes = [part.weight.shape for part in transformer.encoder.modules() if isinstance(part, torch.nn.Linear)]
    spent = 0.0
    for shape in set(shapes):
        rows, weight = torch.randn(2048, shape[1]).to(dtype), torch.randn(shape).to(dtype)
        taken = min(_seconds(lambda _, a=rows, b=weight: torch.mm(a, b.T), []) for _ in range(20))  # type: ignore[misc]
        spent += shapes.count(shape) * taken
    return sum(2 * 2048 * shape.numel() for shape in shapes) / spent


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

    return {
        "SentenceTransformer.encode, default (fp32)": theirs(encoder.module),
        "SentenceTransformer.encode, bf16": theirs(half),
        "hardneg, fp32": ours(EncodeOptions(precision="fp32")),
        "hardneg, bf16": ours(EncodeOptions(precision="bf16")),
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


def _clock() -> float:
    """Seconds; with one thread those of the processor, to which other work on the machine adds little."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _seconds(encode: Encode, texts: list[str]) -> float:
    start = _clock()
    encode(texts)
    return _clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of encoding against sentence-transformers.")
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl of a BEIR folder")
    parser.add_argument("--passages", type=int, default=2048)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    options = parser.parse_args()
    encoder = load_learner(ModelSpec(options.model, document_length=options.length))
    texts = passages(options.corpus, options.passages) if options.corpus else docstrings("numpy", options.passages)
    lengths = encoder.tokenise(texts, "document").lengths
    print(f"{len(texts)} passages of {lengths.mean():.0f} tokens on average, at most {options.length}")
    print(f"{encoder.device}, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        ways = contestants(encoder) | in_int8(encoder, Path(folder))
        speeds = measure(ways, texts, options.rounds)
        found = {name: encode(texts[:256]) for name, encode in ways.items()}
    bases, exact = list(speeds.values())[:2], next(iter(found.values()))
    work = useful_work(encoder, lengths) / len(texts)
    rates = {way: matmul_rate(encoder, dtype) for way, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    for name, speed in speeds.items():
        cosine = float((found[name] * exact).sum(axis=1).mean())
        ratios = f"{speed / bases[0]:5.2f} x its default, {speed / bases[1]:5.2f} x its bf16"
        rate = next((f", {100 * speed * work / rates[way]:3.0f} % of torch.mm" for way in rates if way in name), "")
        print(f"  {name:<44}{speed:8.1f} passages/s  {ratios}; mean cosine {cosine:.6f}{rate}")
    told = ", ".join(f"{rate / 1e12:.3f} TFLOP/s in {way}" for way, rate in rates.items())
    print(f"  {work / 1e9:.2f} GFLOP a passage; torch.mm: {told}")


if __name__ == "__main__":
    main()
