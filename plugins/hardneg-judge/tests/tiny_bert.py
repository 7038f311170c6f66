"""A random cross-encoder of one layer that reads letters, for tests offline."""

import string
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """Writes the network and its tokenizer into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    terms = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    (folder / "vocab.txt").write_text("\n".join(terms) + "\n", encoding="utf-8")
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "max_position_embeddings": 64}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = BertConfig(vocab_size=len(terms), num_hidden_layers=1, num_attention_heads=2, num_labels=1, **sizes)
        network = BertForSequenceClassification(config)
        torch.nn.init.normal_(network.classifier.weight, std=1.0)
        network.save_pretrained(folder)
    return folder
