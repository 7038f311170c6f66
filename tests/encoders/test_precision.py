"""Precision `auto` is what the processor has units for, and what a stage began with."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

from hardneg.encoders import passes
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.passes import most_tokens, takes_bf16, usual_budget
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import in_bfloat16, sharing
from hardneg.records.errors import UsageError
from hardneg.runtime.devices import bf16_on_cpu
from hardneg.store.choices import noted

USES = get_args(passes.Use)
_UNITS = pytest.mark.skipif(not bf16_on_cpu(), reason="this CPU has no units for bfloat16, or a variable forbids them")


@pytest.fixture
def network(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(passes, "LARGE", 1)
    return load_learner(ModelSpec(str(tiny_model)), "cpu").module


def computing_on(monkeypatch: pytest.MonkeyPatch, bf16: bool) -> None:
    monkeypatch.setattr(passes, "has_bf16_units", lambda device: bf16)


@pytest.mark.parametrize("bf16", [False, True])
def test_auto_is_what_the_processor_has_units_for(network, bf16, monkeypatch):
    computing_on(monkeypatch, bf16)
    with noted() as choices:
        assert [takes_bf16("auto", network, use) for use in USES] == [bf16] * 2
    weights = sum(weight.numel() for weight in network.parameters())
    assert choices == {f"{use} on cpu, {weights:,} weights": "bf16" if bf16 else "fp32" for use in USES}
    assert takes_bf16("bf16", network, "training") and not takes_bf16("fp32", network, "training")
    with noted({name: "fp32" for name in choices}):
        assert not any(takes_bf16("auto", network, use) for use in USES)


def test_a_small_network_or_one_without_a_transformer_stays_in_float32(network, monkeypatch):
    computing_on(monkeypatch, bf16=True)
    assert not takes_bf16("auto", nn.Linear(2000, 2000), "inference")
    monkeypatch.setattr(passes, "LARGE", 1_000_000)
    assert not takes_bf16("auto", network, "inference")


def test_bfloat16_is_refused_on_a_gpu_that_imitates_it(monkeypatch):
    network = nn.Linear(2, 2)
    monkeypatch.setattr(nn.Linear, "parameters", lambda self: iter([Card()]))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    computing_on(monkeypatch, bf16=False)
    with pytest.raises(UsageError, match=r"needs a GPU of CUDA capability 8\.0 or later, and Tesla T4 is older: set"):
        takes_bf16("bf16", network, "inference")
    assert not takes_bf16("fp32", network, "inference")
    computing_on(monkeypatch, bf16=True)
    assert takes_bf16("bf16", network, "inference")


class Card:
    """A weight on a GPU."""

    device = torch.device("cuda")


@pytest.mark.parametrize("bf16", [False, pytest.param(True, marks=_UNITS)])
def test_encoding_follows_it(tiny_model, bf16, monkeypatch):
    monkeypatch.setattr(passes, "LARGE", 1)
    computing_on(monkeypatch, bf16)
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    texts, told = ["some words", "and others"], EncodeOptions(precision="bf16" if bf16 else "fp32")
    assert (encoder.encode(texts, "query") == encoder.encode(texts, "query", told)).all()


def test_tokens_of_a_pass():
    """Fewer where the first module makes logits of 30,000 terms of each token: of 2^29 bytes on a CPU."""
    cpu, card = torch.device("cpu"), torch.device("cuda")
    assert usual_budget(cpu) == 1024 * torch.get_num_threads() and usual_budget(card) == 65_536

    class Logits:
        def get_embedding_dimension(self) -> int:
            return 30_000

    assert most_tokens(Logits(), cpu) == (1 << 29) // 120_000 and most_tokens(object(), cpu) == 1 << 27
    assert most_tokens(Logits(), card) == (1 << 34) // 120_000


@pytest.mark.parametrize("copy", [sharing, in_bfloat16])
def test_a_copy_to_compute_with_takes_the_tokenizer_along_as_it_is(tiny_model, copy):
    network = load_learner(ModelSpec(str(tiny_model)), "cpu").parts("document")[0]
    copied = copy(network)
    assert copied is not network
    assert copied.processor is network.processor
