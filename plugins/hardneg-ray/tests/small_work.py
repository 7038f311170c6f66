"""A collection of a few blocks, small random models, and a recipe with all stages that an engine runs."""

import json
import random
from pathlib import Path
from typing import Any

import yaml

WORDS = 300


def collection(folder: Path, documents: int = 9000, queries: int = 4200) -> Path:
    """Write the given numbers of documents and training queries; a query is the first words of its document."""
    draw = random.Random(0)
    texts = [" ".join(f"w{draw.randrange(WORDS)}" for _ in range(draw.randint(2, 9))) for _ in range(documents)]
    (folder / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": f"d{row}", "text": text}) for row, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    asked = [json.dumps({"_id": f"q{row}", "text": " ".join(texts[row].split()[:2])}) for row in range(queries + 20)]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n")
    for split, part in {"train": range(queries), "test": range(queries, queries + 20)}.items():
        lines = "".join(f"q{row}\td{row}\t1\n" for row in part)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def static_model(folder: Path) -> Path:
    """Write a SentenceTransformer with a random vector of 16 numbers for each word."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    table = torch.randn(WORDS + 4, 16, generator=torch.Generator().manual_seed(0))
    modules = [StaticEmbedding(_tokenizer(), embedding_weights=table), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


def cross_encoder(folder: Path) -> Path:
    """Write a BERT with two layers, 16 dimensions, random weights and one output."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertForSequenceClassification(BertConfig(vocab_size=WORDS + 4, num_labels=1, **sizes)).save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), model_max_length=32, **special).save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(WORDS))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", pair, [("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def recipe(folder: Path, documents: int = 9000, queries: int = 4200) -> Path:
    """Write a recipe with three blocks of passages, two of queries, five to mine and six to rerank; return its path."""
    plugin = {"name": "cross-encoder", "source": str(cross_encoder(folder / "reranker")), "length": 32}
    rank = {"stage": "rerank", "plugin": plugin, "run": "run", "split": "train", "depth": 5}
    stages = {
        "index": {"stage": "encode"},
        "run": {"stage": "search", "index": "index", "split": "train", "depth": 20},
        "mined": {"stage": "mine", "runs": {"dense": "run"}, "miner": {"name": "topk", "depth": 10}},
        "ranked": {**rank, "precision": "fp32"},
    }
    dataset = f"beir:{collection(folder / 'data', documents, queries)}"
    tree = {"dataset": dataset, "model": {"name": str(static_model(folder / "model"))}, "stages": stages}
    path = folder / "r.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path
