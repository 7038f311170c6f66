"""Rerankers of decoders, whose files may have no token that pads: scores of pairs together are those of each alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.records import ModelError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairNetwork, load_classifier

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
PAIRS = [("old river", ["a river", "the old river runs through a wide valley", "", "two words"])]


def llama(folder: Path, network: str = "LlamaForSequenceClassification", **tokens: int | None) -> Path:
    """A decoder with a head of one output, its tokens that end and pad as they are given."""
    import transformers

    tiny_encoder(folder, kind="transformers")
    ids = {"pad_token_id": None, "eos_token_id": None, "bos_token_id": None, **tokens}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=2000, num_labels=1, **SIZES, **ids)
        getattr(transformers, network)(config).save_pretrained(folder)
    return folder


def tokenizer(folder: Path, **changes: Any) -> Path:
    path = folder / "tokenizer_config.json"
    kept = {name: value for name, value in json.loads(path.read_text()).items() if changes.get(name, "") is not None}
    path.write_text(json.dumps(kept | {name: value for name, value in changes.items() if value is not None}))
    return folder


@pytest.mark.parametrize("pad", ["[PAD]", None, "[SEP]"])
@pytest.mark.parametrize("of_network", [None, -1, 4])
def test_pairs_together_are_scored_as_alone(tmp_path: Path, pad: str | None, of_network: int | None) -> None:
    """[SEP] ends a pair, so it cannot pad; 4 is [MASK]. Alone is what transformers computes of the files."""
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    folder = tokenizer(llama(tmp_path, pad_token_id=of_network), pad_token=pad, eos_token="[SEP]")
    found = next(CrossEncoder(str(folder), length=64, activation="none").rerank(PAIRS))
    model, words = LlamaForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    model.config.pad_token_id = None
    with torch.no_grad():
        alone = [model(**words([PAIRS[0][0]], [text], return_tensors="pt")).logits.item() for text in PAIRS[0][1]]
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_a_fresh_head_is_saved_with_a_token_that_pads(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder as Library

    folder = tokenizer(llama(tmp_path / "base", "LlamaModel"), pad_token=None, eos_token="[SEP]")
    network = PairNetwork(load_classifier(folder, 64))
    network.save(tmp_path / "saved", "a card")
    scores = Library(str(tmp_path / "saved"), device="cpu").predict([(PAIRS[0][0], text) for text in PAIRS[0][1]])
    ours = next(CrossEncoder(str(tmp_path / "saved"), length=64).rerank(PAIRS))
    np.testing.assert_allclose(ours, scores, atol=1e-5)


def test_without_any_such_token_it_is_told(tmp_path: Path) -> None:
    names = ("pad", "eos", "bos", "cls", "unk")
    folder = tokenizer(llama(tmp_path), **{f"{name}_token": None for name in names})
    with pytest.raises(ModelError, match="no token that could pad: set pad_token in its"):
        next(CrossEncoder(str(folder), length=64).rerank(PAIRS))
