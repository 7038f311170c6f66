"""A random BERT-like encoder of a few hundred kilobytes with a vocabulary of its own, for tests offline.

Words share embeddings by their letter pairs, so texts with common words are close even before training.
"""

import json
import string
from itertools import product
from pathlib import Path
from typing import Literal

from hardneg.registry import plugin_names

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HIDDEN = 32
POSITIONS = 512
Kind = Literal["sentence-transformers", "transformers"]


def tiny_encoder(folder: Path, *, seed: int = 0, kind: Kind = "sentence-transformers") -> Path:
    """Writes a two-layer encoder of 32 dimensions into `folder`; equal seeds give equal weights.

    `sentence-transformers` has mean pooling and ends in a normalisation; `transformers` is the bare model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    _write_model(folder, seed)
    if kind == "sentence-transformers":
        _write_modules(folder)
    return folder


def tiny_masked_lm(folder: Path, *, seed: int = 0) -> Path:
    """Writes the same network with a head of masked words, its weights drawn: about a tenth of terms is active."""
    import torch
    from transformers import BertForMaskedLM

    tiny_encoder(folder, seed=seed, kind="transformers")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForMaskedLM.from_pretrained(folder)
        head = model.cls.predictions
        torch.nn.init.normal_(head.transform.dense.weight, std=0.3)
        torch.nn.init.constant_(head.decoder.bias, -5.0)
    model.save_pretrained(folder)
    return folder


def tiny_reranker(folder: Path, *, outputs: int = 1) -> Path:
    """Writes `tiny_encoder` with a head of so many outputs, drawn as that of an untrained `cross-encoder`."""
    from hardneg.rerankers.network import load_classifier

    encoder = tiny_encoder(folder.with_name(f"{folder.name}-base"), kind="transformers")
    load_classifier(encoder, 256, outputs).save_pretrained(str(folder), create_model_card=False)
    return folder


def tiny_sparse_encoder(folder: Path, *, seed: int = 0) -> Path:
    """Writes `tiny_masked_lm` as sentence-transformers saves a SPLADE, with a prompt for queries."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    base = tiny_masked_lm(folder.with_name(f"{folder.name}-base"), seed=seed)
    modules = [Transformer(str(base), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules, device="cpu", prompts={"query": "find: ", "document": ""}).save(str(folder))
    return folder


def tiny_static(folder: Path, *, seed: int = 0, normalised: bool = True) -> Path:
    """Writes a SentenceTransformer with one random vector of 32 dimensions for each of the tiny encoder's tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    draws = torch.Generator().manual_seed(seed)
    table = torch.randn(len(_vocabulary()), HIDDEN, generator=draws)
    static = StaticEmbedding(Tokenizer.from_file(str(folder / "tokenizer.json")), embedding_weights=table)
    for file in folder.iterdir():
        file.unlink()
    modules = [static, Normalize()] if normalised else [static]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


def tiny_model2vec(folder: Path, *, normalised: bool = True) -> Path:
    """Writes a model2vec folder whose ids share four rows of two numbers, each with a weight of its own.

    Token `i` has row `i % 4`, which is [i % 4, 1], times 0.5 where `i` is odd.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    ids = torch.arange(len(_vocabulary()))
    rows = torch.stack([torch.arange(4.0), torch.ones(4)], dim=1)
    weights = torch.where(ids % 2 == 1, 0.5, 1.0)
    save_file({"embeddings": rows.half(), "mapping": ids % 4, "weights": weights}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": normalised}))
    return folder


def _vocabulary() -> dict[str, int]:
    letters = string.ascii_lowercase + string.digits
    starts = [*letters, *("".join(pair) for pair in product(string.ascii_lowercase, repeat=2))]
    tokens = [*_SPECIAL, *string.punctuation, *starts, *(f"##{piece}" for piece in starts)]
    return {token: row for row, token in enumerate(tokens)}


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = _vocabulary()
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=POSITIONS,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)


def _write_model(folder: Path, seed: int) -> None:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(_vocabulary()),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        initializer_range=0.05,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config)
        torch.nn.init.normal_(model.embeddings.word_embeddings.weight, std=0.5)
    model.save_pretrained(folder)


def _write_modules(folder: Path) -> None:
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    pooling = {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True}
    for name in ("1_Pooling", "2_Normalize"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules, indent=2))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"similarity_fn_name": "cosine"}))


def tiny_multi_vector(
    folder: Path, *, seed: int = 0, expansion: int | None = 12, attend: bool = False, dimension: int | None = 16
) -> Path:
    """Writes a `MultiVectorEncoder` of sentence-transformers: markers, a skiplist, a projection, a normalisation.

    expansion: up to how many tokens queries are filled, and cut; documents are cut at 24.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    bare = tiny_encoder(folder.with_name(f"{folder.name}-bare"), seed=seed, kind="transformers")
    filled = None if expansion is None else {"strategy": "fixed", "length": expansion, "attend": attend}
    first = Transformer(str(bare), document_length=24, query_expansion=filled)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = (
            None if dimension is None else Dense(HIDDEN, dimension, bias=False, activation_function=torch.nn.Identity())
        )
    if head is not None:
        head.module_input_name = head.module_output_name = "token_embeddings"
    rest = [MultiVectorMask(skiplist_words=list(string.punctuation)), Normalize(module_input_name="token_embeddings")]
    prompts = {"query": "[Q] ", "document": "[D] "}
    modules = [first, *([head] if head is not None else []), *rest]
    MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").save(str(folder), create_model_card=False)
    return folder


BY_FAMILY = {
    "dense": tiny_encoder,
    "static": tiny_static,
    "sparse": tiny_sparse_encoder,
    "multi-vector": tiny_multi_vector,
}
BY_FAMILY = {name: make for name, make in BY_FAMILY.items() if name in plugin_names("encoders")}
"""Who writes a model of each family of encoders that is installed."""
