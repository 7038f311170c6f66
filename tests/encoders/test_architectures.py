"""Architectures of today: long texts, adapters, activations computed twice, less memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Dropout

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.contract import USUAL
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.training.loop import gradient_checkpointing
from tests.encoders.test_adapters import closeness
from tests.encoders.test_hub_folders import DECODER, MODERN, PUBLISHED
from tests.tiny import tiny_encoder

NAMES = ["Qwen3-Embedding", "bge-v1.5, no prompt pooled", "all-distilroberta", "multilingual-e5", "all-mpnet"]
NAMES += ["ELECTRA", "msmarco-distilbert-tas-b", "ModernBERT-embed", "EmbeddingGemma"]
LINEAR = {"bge-v1.5, no prompt pooled": 6, "ModernBERT-embed": 4, NAMES[0]: 7, "msmarco-distilbert-tas-b": 6}
FP32 = EncodeOptions(precision="fp32")
TEXTS = ["hello", "the quick brown fox jumps over the lazy dog", "", " ".join(f"word{i}" for i in range(400))]


def long_reader(folder: Path, name: str, config: dict[str, Any], dimension: int = 32) -> Path:
    """A random model of an architecture that reads up to 8190 tokens, saved by sentence-transformers."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain = tiny_encoder(folder / "plain", kind="transformers")
    made: Any = getattr(transformers, f"{name}Config")(vocab_size=2000, pad_token_id=0, **config)
    getattr(transformers, f"{name}Model")(made).save_pretrained(plain)
    first: Any = Transformer(str(plain))
    first.max_seq_length = 8190
    SentenceTransformer(modules=[first, Pooling(dimension)]).save(str(folder / "model"))
    return folder / "model"


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] if name != NAMES[0] else []) for name in NAMES]
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, PUBLISHED[request.param].write(tmp_path_factory.mktemp("models"))


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
    with gradient_checkpointing(encoder.module):
        again = gradients(encoder)
    assert plain.keys() == again.keys() and len(plain) > 3
    assert all(torch.allclose(plain[name], again[name], rtol=1e-4, atol=1e-6) for name in plain)


def test_each_layer_is_computed_twice_and_no_longer_after_the_end(model: tuple[str, Path]) -> None:
    encoder = load_learner(ModelSpec(str(model[1]), similarity="dot"), "cpu")
    stack = next(part for part in encoder.module.modules() if isinstance(part, torch.nn.ModuleList))
    calls: list[int] = []
    next(stack[1].children()).register_forward_hook(lambda *_: calls.append(1))
    gradients(encoder)
    once = len(calls)
    with gradient_checkpointing(encoder.module):
        gradients(encoder)
    assert len(calls) == 3 * once
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


def test_long_texts_of_a_modernbert(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = long_reader(tmp_path, "ModernBert", {**MODERN, "max_position_embeddings": 8192})
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
    assert len(reads) == 2 + (model[0] == "EmbeddingGemma")  # which has a scale that would be rounded
    buffers = dict(whole.parts("query")[0].model.named_buffers())
    for name, buffer in half.parts("query")[0].model.named_buffers():
        assert torch.equal(buffer, buffers[name]) and buffer.dtype == buffers[name].dtype, name
    assert next(half.parts("query")[0].parameters()).dtype == torch.bfloat16


MEASURE = """
import sys, threading, time
from hardneg.encoders.open.resolved import load_encoder
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
def test_weights_need_no_more_memory_than_they_have_in_their_dtype(tmp_path: Path) -> None:
    """160 million weights in a float32 file: 320 MB as bfloat16, and never the 640 MB of float32 beside them."""
    sizes = {"hidden_size": 1024, "num_hidden_layers": 10, "intermediate_size": 3072, "num_attention_heads": 16}
    large = {**DECODER, **sizes, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 32768}
    small = PUBLISHED["Qwen3-Embedding"].write(tmp_path / "small")
    line = [sys.executable, "-c", MEASURE, str(small), str(long_reader(tmp_path / "large", "Qwen3", large, 1024))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    peak, weights = map(int, done.stdout.split()[-2:])
    assert weights > 250_000_000
    assert peak < 1.15 * weights + 50_000_000
