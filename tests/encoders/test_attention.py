"""Attention by name gives the same vectors; what cannot be had is told."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.precision import check_attention
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import in_bfloat16, sharing
from hardneg.records.errors import ModelError

TEXTS = ["a passage of several words", "short", "another passage, a longer one than the others are", ""]


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


@pytest.mark.parametrize("name", ["sdpa", "eager"])
def test_every_way_gives_the_same_vectors(encoder, name):
    usual = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16"))
    found = encoder.encode(TEXTS, "document", EncodeOptions(precision="bf16", attention=name))
    assert (usual * found).sum(axis=1).min() > 0.9999
    own = encoder.parts("document")[0].model
    assert own.config._attn_implementation == "sdpa" and own.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "told"),
    [("flash_attention_2", "needs a GPU by CUDA; this is cpu"), ("flash_attention_3", "needs a GPU by CUDA")],
)
def test_what_this_machine_has_not_is_told(encoder, name, told):
    with pytest.raises(ModelError, match=f"attention is {name}, which {told}.*leave it out"):
        encoder.encode(TEXTS, "document", EncodeOptions(attention=name))


class Stranger:
    """A network of transformers whose attention cannot be chosen."""

    def __init__(self, device: str) -> None:
        self.device, self.config = torch.device(device), BertConfig(attn_implementation="sdpa")

    def is_backend_compatible(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("name", "device", "told"),
    [
        ("eager", "cpu", "a Stranger has its own attention alone"),
        ("flash_attention_2", "cuda", "flash_attn is not installed: pip install flash-attn"),
        ("flash_attention_3", "cuda", "flash_attn_interface is not installed: install what brings"),
    ],
)
def test_what_a_network_or_an_installation_has_not_is_told(name, device, told):
    with pytest.raises(ModelError, match=told):
        check_attention(name, Stranger(device))


@pytest.mark.parametrize("copy", [sharing, in_bfloat16])
def test_a_copy_to_compute_with_takes_the_tokenizer_along_as_it_is(encoder, copy):
    network = encoder.parts("document")[0]
    copied = copy(network)
    assert copied is not network
    assert copied.processor is network.processor
