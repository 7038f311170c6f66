"""A random T5 with two layers and a vocabulary of single letters."""

import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

TOKENS = ["<pad>", "</s>", "<unk>", *string.ascii_lowercase, *string.digits]
VOCABULARY = {token: row for row, token in enumerate(TOKENS)}


def tiny_t5(folder: Path, *, seed: int = 0) -> Path:
    """Write a network with random weights, and its tokenizer."""
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    letters = pre_tokenizers.Split("", "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), letters])
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = T5ForConditionalGeneration(T5Config(vocab_size=len(VOCABULARY), **sizes, **ids))
        for weight in network.parameters():  # T5's own first weights say the same to every text
            weight.data.normal_(0.0, 0.5)
        network.save_pretrained(folder)
    return folder
