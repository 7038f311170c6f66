"""Published models in small: vectors of sentence-transformers, a training of five steps, and models of a hub."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import SIDES, ModelSpec
from hardneg.losses.infonce import InfoNCE
from hardneg.runtime import Silent
from hardneg.training.methods.dual_encoder import train
from tests.encoders.test_adapters import apart
from tests.hub_server import Hub, hub_server
from tests.tiny import tiny_encoder
from tests.training.toy import options, toy_data, write_toy

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
DECODER = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 4096}
MODERN = {**SIZES, "local_attention": 16, "global_attn_every_n_layers": 2}
LINEAR = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1}
INSTRUCTION = ("Instruct: find the passage\nQuery:", "")
E5, NOMIC = ("query: ", "passage: "), ("search_query: ", "search_document: ")
GEMMA = ("task: search result | query: ", "title: none | text: ")
TEXTS = ["", "hello", "two words", "a😀b", "北京 and 上海", "the quick brown fox jumps over the lazy dog"]
TEXTS += ["word " * 300, *(f"passage {number} " * number for number in range(1, 6))]


@dataclass(frozen=True)
class Published:
    """The form of a model's folder.

    network: of transformers. pooling, prompts, dense, tail: of sentence-transformers; tail: whether vectors are
    normalised. left: whether its tokenizer pads on the left, with the token that ends texts. packed: whether texts may
    stand in one row.
    """

    network: str
    config: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    pooling: str = "mean"
    prompts: tuple[str, str] = ("", "")
    dense: tuple[int, ...] = ()
    tail: bool = True
    left: bool = False
    packed: bool = True
    include_prompt: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Writes the folder as its hub repository has it, with random weights."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

        plain = tiny_encoder(folder / "plain", kind="transformers")
        path = plain / "tokenizer_config.json"
        side = {"padding_side": "left", "pad_token": "[SEP]", "eos_token": "[SEP]"} if self.left else {}
        path.write_text(json.dumps(json.loads(path.read_text()) | side | {"model_max_length": 512}))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _network(self.network, self.config, 3 if self.left else 0).save_pretrained(plain)
            first: Any = Transformer(str(plain))
            first.max_seq_length = 256
            size = first.get_embedding_dimension()
            modules = [first, Pooling(size, self.pooling, include_prompt=self.include_prompt)]
            for wide in self.dense:
                modules.append(Dense(size, wide, bias=False, activation_function=torch.nn.Identity()))
                size = wide
        modules += [Normalize()] if self.tail else []
        prompts = dict(zip(SIDES, self.prompts, strict=True))
        SentenceTransformer(modules=modules, prompts=prompts, device="cpu", **self.options).save(str(folder / "model"))
        return folder / "model"


def _network(name: str, config: Mapping[str, Any], padding: int) -> Any:
    """A network whose weights are as large as trained ones."""
    import transformers

    made = getattr(transformers, f"{name.removesuffix('Encoder')}Config")
    shape = {"vocab_size": 2000, "pad_token_id": padding, "bos_token_id": 2, "eos_token_id": 3}
    network: Any = getattr(transformers, f"{name}Model")(made(**shape, **config))
    for weight in network.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    return network


def _decoder(network: str, **more: Any) -> Published:
    config = {**DECODER, **more}
    return Published(network, config, "lasttoken", INSTRUCTION, left=True)


def _hybrid(network: str, packed: bool = False, **more: Any) -> Published:
    return Published(network, {**DECODER, **more}, "lasttoken", packed=packed)


PUBLISHED = {
    "Qwen3-Embedding": _decoder("Qwen3"),
    "Qwen3-MoE": _decoder("Qwen3Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32),
    "e5-mistral": _decoder("Mistral", sliding_window=None),
    "e5-mistral, window of 16": _decoder("Mistral", sliding_window=16),
    "Qwen3, not causal": Published("Qwen3", {**DECODER, "is_causal": False}, prompts=INSTRUCTION),
    "llama-embed-nemotron": Published("Llama", {**DECODER, "is_causal": False}, prompts=E5),
    "Nemotron 3 Embed": Published("Ministral3", {**DECODER, "is_causal": False}, prompts=E5),
    "EmbeddingGemma": Published(
        "Gemma3Text",
        {**DECODER, "use_bidirectional_attention": True, "sliding_window": 16},
        prompts=GEMMA,
        dense=(64, 32),
    ),
    "EmbeddingGemma 2, text": Published(
        "EmbeddingGemma2Text",
        {**DECODER, "sliding_window": 16, "hidden_size_per_layer_input": 8, "global_head_dim": 32, "embedding_dim": 32},
        prompts=GEMMA,
    ),
    "ModernBERT-embed": Published("ModernBert", MODERN, prompts=NOMIC),
    "EuroBERT": Published("EuroBert", {**DECODER, "is_causal": False}),
    "nomic-embed-text": Published("NomicBert", prompts=NOMIC),
    "gte-multilingual": Published("Gte", pooling="cls"),
    "jina-embeddings-v3": Published("JinaEmbeddingsV3"),
    "bge-m3": Published("XLMRoberta", {**SIZES, "max_position_embeddings": 514}, "cls"),
    "multilingual-e5": Published("XLMRoberta", {**SIZES, "max_position_embeddings": 514}, prompts=E5),
    "mxbai, 16 dimensions": Published(
        "Bert", pooling="cls", prompts=INSTRUCTION, tail=False, options={"truncate_dim": 16}
    ),
    "bge-v1.5, no prompt pooled": Published("Bert", prompts=INSTRUCTION, include_prompt=False),
    "BERT, padded on the left": Published("Bert", pooling="lasttoken", left=True),
    "msmarco-distilbert-tas-b": Published(
        "DistilBert",
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
        "cls",
        tail=False,
        options={"similarity_fn_name": "dot"},
    ),
    "all-distilroberta": Published("Roberta", {**SIZES, "max_position_embeddings": 514}),
    "ELECTRA": Published("Electra", {**SIZES, "embedding_size": 32}, "cls"),
    "all-mpnet": Published("MPNet", packed=False),
    "DeBERTa v2": Published(
        "DebertaV2", {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, packed=False
    ),
    "gtr-t5": Published(
        "T5Encoder", {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}, dense=(24,), packed=False
    ),
    "Qwen3.5": _hybrid("Qwen3_5Text", layer_types=["linear_attention", "full_attention"], **LINEAR),
    "LFM2": _hybrid("Lfm2", full_attn_idxs=[1], conv_L_cache=3, block_auto_adjust_ff_dim=False),
    "Granite hybrid": _hybrid(
        "GraniteMoeHybrid",
        num_local_experts=0,
        layer_types=["mamba", "attention"],
        shared_intermediate_size=64,
        **MAMBA,
    ),
    "RecurrentGemma": _hybrid("RecurrentGemma", lru_width=32, block_types=["recurrent", "attention"]),
}
_FAST = {"Qwen3-Embedding", "nomic-embed-text", "gte-multilingual", "jina-embeddings-v3", "LFM2", "Granite hybrid"}


def closeness(ours: Encoder, theirs: Any, chosen: EncodeOptions) -> float:
    """The smallest cosine over both sides; theirs encode one text a pass, as padding must not matter."""
    asked = {"query": theirs.encode_query, "document": theirs.encode_document}
    cosines = []
    for side in SIDES:
        vectors = ours.encode(TEXTS, side, chosen), asked[side](TEXTS, batch_size=1)
        one, other = (np.asarray(each, np.float64) for each in vectors)
        cosines.append((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1))
    return float(np.min(cosines))


_NAMED = [pytest.param(name, marks=[] if name in _FAST else [pytest.mark.slow]) for name in PUBLISHED]


@pytest.mark.parametrize("name", _NAMED)
def test_vectors_and_training_are_those_of_sentence_transformers(name: str, tmp_path: Path) -> None:
    """Cosines of texts in a pass together and alone, and of the folder saved after five steps, which change weights."""
    from sentence_transformers import SentenceTransformer

    model, work = PUBLISHED[name].write(tmp_path), write_toy(tmp_path / "toy")
    ours, theirs = load_learner(ModelSpec(str(model)), "cpu", "fp32"), SentenceTransformer(str(model), device="cpu")
    learner = load_learner(ModelSpec(str(model)), "cpu")
    before = [weight.detach().clone() for weight in learner.module.parameters()]
    settings = options(max_steps=5, accumulate=1, learning_rate=1e-3)
    train(learner, toy_data(work), InfoNCE(), settings, tmp_path / "run", progress=Silent())
    after = zip(before, learner.module.parameters(), strict=True)
    assert max(float((new.detach() - old).abs().max()) for old, new in after) > 1e-4
    learner.save(tmp_path / "trained")
    saved = SentenceTransformer(str(tmp_path / "trained"), device="cpu")
    cosines = [closeness(ours, theirs, EncodeOptions(budget, "fp32")) for budget in (100_000, 1)]
    assert min(*cosines, closeness(learner, saved, EncodeOptions(precision="fp32"))) > 1 - 1e-6


FETCH = """
import json, sys
from hardneg.records.errors import HardnegError
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import resolve, load_learner
from hardneg.encoders.spec import AdapterSpec, ModelSpec
told = {}
for name in sys.argv[1:]:
    model, _, adapter = name.partition("+")
    adapter = AdapterSpec(adapter) if adapter else None
    try:
        spec = ModelSpec(model, pooling="mean", query_length=16, document_length=16, adapter=adapter)
        told[name] = [resolve(spec).digest, load_learner(spec, "cpu").encode(["an old river"], "query").tolist()]
    except HardnegError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""
NAMES = ["some/safe", "some/old", "some/shards", "some/both", "some/adapter", "some/base+some/adapter"]
MISSING = ["some/gated", "some/missing"]


def _add_models(hub: Hub, place: Path) -> None:
    safe = tiny_encoder(place / "safe", kind="transformers")
    weights = load_file(safe / "model.safetensors")
    torch.save(weights, place / "pytorch_model.bin")
    hub.model("some/safe", safe)
    hub.model("some/gated", safe, gated=True)
    files = dict(hub.repositories["models/some/safe"].branches["main"])
    bare = {name: data for name, data in files.items() if name != "model.safetensors"}
    pickled = (place / "pytorch_model.bin").read_bytes()
    hub.model("some/old", {**bare, "pytorch_model.bin": pickled, "training_args.bin": b"never asked for"})
    hub.model("some/both", {**files, "pytorch_model.bin": pickled})
    names = sorted(weights)
    shards = {f"pytorch_model-{part + 1:05}-of-00002.bin": names[part::2] for part in range(2)}
    index = {"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}
    split = {}
    for shard, held in shards.items():
        torch.save({name: weights[name] for name in held}, place / shard)
        split[shard] = (place / shard).read_bytes()
    base = tiny_encoder(place / "base")
    adapter, _ = apart(base, place / "adapter")
    config = (adapter / "adapter_config.json").read_text().replace(str(base.resolve()), "some/base")
    (adapter / "adapter_config.json").write_text(config)
    hub.model("some/base", base)
    hub.model("some/adapter", adapter)
    hub.model("some/shards", {**bare, **split, "pytorch_model.bin.index.json": json.dumps(index).encode()})


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, dict[str, str]]:
    """What one process says of all models, the paths that it fetched, and the environment with its cache."""
    folder = tmp_path_factory.mktemp("hub-models")
    with hub_server() as hub:
        _add_models(hub, folder)
        environment = hub.environment(folder / "cache")
        done = subprocess.run(
            [sys.executable, "-c", FETCH, *NAMES, *MISSING],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), " ".join(hub.fetched()), environment


@pytest.mark.slow
def test_weights_are_fetched_in_one_form(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, paths, _ = fetched
    assert told["some/safe"][1] == told["some/old"][1] == told["some/shards"][1] == told["some/both"][1]
    np.testing.assert_allclose(told[NAMES[4]][1], told[NAMES[5]][1], atol=1e-6)  # by its own name, and beside its base
    assert len({told[name][0] for name in NAMES}) == 6
    assert "some/old/" in paths and "training_args.bin" not in paths
    both = [path for path in paths.split() if path.startswith("/some/both/") and "pytorch_model" in path]
    assert both == []
    assert told["some/gated"].startswith("ModelError: model 'some/gated'") and "gated" in told["some/gated"]
    assert told["some/missing"].startswith("ModelError: model 'some/missing'")
    assert all("\n" not in told[name] for name in MISSING)


@pytest.mark.slow
def test_fetched_models_open_without_the_network(fetched: tuple[dict[str, Any], str, dict[str, str]]) -> None:
    told, _, environment = fetched
    line = [sys.executable, "-c", FETCH, *NAMES]
    again = subprocess.run(line, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=300)
    assert json.loads(again.stdout) == {name: told[name] for name in NAMES}
