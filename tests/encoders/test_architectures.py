"""Architectures of today: vectors as others make them of the same folder, long texts, adapters, less memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Dropout

from hardneg.encoders.adapters import layer_targets
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.contract import USUAL
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.training.loop import compute_twice
from tests.tiny import tiny_encoder

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
QWEN = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 32768}
CONFIGS: dict[str, dict[str, Any]] = {
    "Bert": SIZES,
    "Roberta": SIZES,
    "XLMRoberta": SIZES,
    "MPNet": SIZES,
    "Electra": {**SIZES, "embedding_size": 32},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "ModernBert": {**SIZES, "max_position_embeddings": 8192, "local_attention": 16, "global_attn_every_n_layers": 2},
    "Qwen3": QWEN,
    "Gemma3Text": QWEN,
}
LINEAR = {"Bert": 6, "ModernBert": 4, "Qwen3": 7, "DistilBert": 6}
FP32 = EncodeOptions(precision="fp32")
LONG = " ".join(f"word{i}" for i in range(400))
TEXTS = ["hello", "the quick brown fox jumps over the lazy dog", "", LONG]


def tiny(folder: Path, name: str, length: int = 1024, dimension: int = 32) -> Path:
    """A random model of an architecture, saved by sentence-transformers as such models are; Qwen3 as its embeddings."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain = tiny_encoder(folder / "plain", kind="transformers")
    config: Any = getattr(transformers, f"{name}Config")(vocab_size=2000, pad_token_id=0, **CONFIGS[name])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        getattr(transformers, f"{name}Model")(config).save_pretrained(plain)
    last = name.startswith("Qwen")
    told = json.loads((plain / "tokenizer_config.json").read_text())
    (plain / "tokenizer_config.json").write_text(json.dumps({**told, "padding_side": "left" if last else "right"}))
    first: Any = Transformer(str(plain))
    first.max_seq_length = min(length, getattr(config, "max_position_embeddings", length) - 2)
    pooling = Pooling(dimension, pooling_mode="lasttoken" if last else "mean")
    prompts = {"query": "Instruct: find it\nQuery:", "document": ""}
    SentenceTransformer(modules=[first, pooling], prompts=prompts).save(str(folder / "model"))
    return folder / "model"


_FAST = "Qwen3"


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] if name != _FAST else []) for name in CONFIGS]
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, tiny(tmp_path_factory.mktemp("models") / request.param, request.param)


def closeness(one: np.ndarray, other: np.ndarray) -> float:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / norms).min())


def test_vectors_are_those_that_others_make(model: tuple[str, Path]) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(model[1])
    opened, ours = SentenceTransformer(folder, device="cpu"), load_learner(ModelSpec(folder), "cpu", "fp32")
    assert closeness(ours.encode(TEXTS, "query", FP32), opened.encode_query(TEXTS)) > 0.99999
    assert closeness(ours.encode(TEXTS, "document", FP32), opened.encode_document(TEXTS)) > 0.99999


def gradients(encoder: Encoder) -> dict[str, Tensor]:
    """Of a sum over the vectors of short texts, by name."""
    encoder.module.train()
    for part in encoder.module.modules():
        if isinstance(part, Dropout):
            part.p = 0.0
    encoder.module.zero_grad()
    encoder.embed(encoder.features(TEXTS[:2], "query"), "query").sum().backward()
    parameters = encoder.module.named_parameters()
    return {name: weights.grad.clone() for name, weights in parameters if weights.grad is not None}


@pytest.mark.parametrize("adapter", [None, AdapterSpec(rank=2)], ids=["all", "adapter"])
def test_activations_computed_twice_give_the_same_gradients(model: tuple[str, Path], adapter: Any) -> None:
    encoder = load_learner(ModelSpec(str(model[1]), similarity="dot", adapter=adapter), "cpu")
    plain = gradients(encoder)
    turn_off = compute_twice(encoder.module)
    again = gradients(encoder)
    turn_off()
    assert plain.keys() == again.keys() and len(plain) > 3
    assert all(torch.allclose(plain[name], again[name], rtol=1e-4, atol=1e-6) for name in plain)


def test_each_layer_is_computed_twice_and_no_longer_after_the_end(model: tuple[str, Path]) -> None:
    encoder = load_learner(ModelSpec(str(model[1]), similarity="dot"), "cpu")
    stack = next(part for part in encoder.module.modules() if isinstance(part, torch.nn.ModuleList))
    calls: list[int] = []
    next(stack[1].children()).register_forward_hook(lambda *_: calls.append(1))
    gradients(encoder)
    once = len(calls)
    end = compute_twice(encoder.module)
    gradients(encoder)
    assert len(calls) == 3 * once
    end()
    gradients(encoder)
    assert len(calls) == 4 * once


@pytest.mark.slow
def test_an_adapter_is_put_in_saved_and_opened(model: tuple[str, Path], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    name, folder = model
    for save in ("merged", "apart"):
        encoder = load_learner(ModelSpec(str(folder), adapter=AdapterSpec(rank=2, save=save)), "cpu")  # type: ignore[arg-type]
        learning = [weights for weights in encoder.module.parameters() if weights.requires_grad]
        assert name not in LINEAR or len(learning) == 2 * 2 * LINEAR[name]
        for weights in learning:
            torch.nn.init.normal_(weights, std=0.2)
        encoder.save(tmp_path / save)
        opened = SentenceTransformer(str(tmp_path / save), device="cpu")
        ours = encoder.encode(TEXTS, "query", FP32)
        assert closeness(ours, opened.encode_query(TEXTS)) > 0.99999
        again = load_learner(ModelSpec(str(tmp_path / save)), "cpu", "fp32")
        assert closeness(ours, again.encode(TEXTS, "query", FP32)) > 0.99999


def test_heads_and_poolers_get_no_adapter(model: tuple[str, Path]) -> None:
    transformer = load_learner(ModelSpec(str(model[1])), "cpu").parts("query")[0].model
    assert not any("pooler" in target for target in layer_targets(transformer))


def test_long_texts_of_a_modernbert(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = tiny(tmp_path, "ModernBert", 8192)
    ours, opened = load_learner(ModelSpec(str(folder)), "cpu", "fp32"), SentenceTransformer(str(folder), device="cpu")
    assert ours.spec.document_length == 8190
    text = " ".join(f"a{i % 89}" for i in range(1500))
    lengths = ours.tokenise([text, text + " z"], "document").lengths
    assert lengths.tolist() == [lengths[0], lengths[0] + 1] and lengths[0] > 4 * USUAL  # nothing is cut
    texts = [text, text + " z", "short"]
    assert closeness(ours.encode(texts, "document", FP32), opened.encode_document(texts)) > 0.99999
    bare = load_learner(ModelSpec(str(tmp_path / "plain"), pooling="mean"), "cpu")
    assert bare.spec.document_length == USUAL  # a transformer that is not made for retrieval yet
    longer = load_learner(ModelSpec(str(tmp_path / "plain"), pooling="mean", document_length=4096), "cpu")
    assert longer.tokenise([text], "document").lengths[0] > 4 * USUAL
    assert "token_type_ids" not in longer.features(["a"], "query")


def test_weights_alone_are_rounded_and_read_once(model: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from hardneg.encoders.open import loading as load

    reads: list[object] = []
    own = load._modules
    monkeypatch.setattr(load, "_modules", lambda *given: reads.append(given) or own(*given))
    half, whole = (load_learner(ModelSpec(str(model[1])), "cpu", precision) for precision in ("bf16", "fp32"))
    assert len(reads) == 2 + (model[0] == "Gemma3Text")  # which has a scale that would be rounded
    buffers = dict(whole.parts("query")[0].model.named_buffers())
    for name, buffer in half.parts("query")[0].model.named_buffers():
        assert torch.equal(buffer, buffers[name]) and buffer.dtype == buffers[name].dtype, name
    assert next(half.parts("query")[0].parameters()).dtype == torch.bfloat16


MEASURE = """
import sys, threading, time
from hardneg.encoders.open.resolved import load_encoder, load_learner
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
import accelerate, sentence_transformers, transformers
from transformers import Qwen3Model

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

load_encoder(ModelSpec(sys.argv[1]), "cpu", "bf16")  # what is imported on the way
before, peak, done = anonymous(), [0], []

def watch():
    while not done:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)

thread = threading.Thread(target=watch)
thread.start()
encoder = load_encoder(ModelSpec(sys.argv[2]), "cpu", "bf16")
done.append(1)
thread.join()
print(peak[0] - before, sum(w.numel() * w.element_size() for w in encoder.module.parameters()))
"""


@pytest.mark.slow
def test_weights_need_no_more_memory_than_they_have_in_their_dtype(tmp_path: Path, monkeypatch: Any) -> None:
    """160 million weights in a float32 file: 320 MB as bfloat16, and never the 640 MB of float32 beside them."""
    small = tiny(tmp_path / "small", "Qwen3")
    sizes = {"hidden_size": 1024, "num_hidden_layers": 10, "intermediate_size": 3072, "num_attention_heads": 16}
    monkeypatch.setitem(CONFIGS, "Qwen3", {**CONFIGS["Qwen3"], **sizes, "num_key_value_heads": 8, "head_dim": 64})
    large = tiny(tmp_path / "large", "Qwen3", dimension=1024)
    line = [sys.executable, "-c", MEASURE, str(small), str(large)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    peak, weights = map(int, done.stdout.split()[-2:])
    assert weights > 250_000_000
    assert peak < 1.15 * weights + 50_000_000
