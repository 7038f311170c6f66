"""A randomly initialised ELECTRA of two layers with a vocabulary of single letters, written on demand."""

import string
from pathlib import Path

import torch
from transformers import BertTokenizer, ElectraConfig, ElectraForPreTraining

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
VOCABULARY = {token: row for row, token in enumerate([*SPECIAL, *LETTERS])}
POSITIONS = 64


def tiny_electra(folder: Path, *, seed: int = 0) -> Path:
    """Write a discriminator whose embeddings are narrower than its layers, as in ELECTRA-small; return its folder."""
    if not folder.exists():
        folder.mkdir(parents=True)
        BertTokenizer(VOCABULARY, model_max_length=POSITIONS).save_pretrained(folder)
        sizes = {"vocab_size": len(VOCABULARY), "embedding_size": 8, "hidden_size": 16, "intermediate_size": 32}
        sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": POSITIONS}
        config = ElectraConfig(**sizes, initializer_range=0.3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            ElectraForPreTraining(config).save_pretrained(folder)
    return folder
