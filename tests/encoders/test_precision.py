"""Precision: `auto` is what the processor has units for; weights in the dtype that texts are encoded in."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from tiny import tiny_encoder
from torch import nn

from hardneg.encoders import towers
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import in_bfloat16, most_tokens, sharing, takes_bf16, usual_budget
from hardneg.records import UsageError
from hardneg.runtime import bf16_on_cpu
from hardneg.store import noted

USES = get_args(towers.Use)
_UNITS = pytest.mark.skipif(not bf16_on_cpu(), reason="this CPU has no units for bfloat16, or a variable forbids them")


@pytest.fixture
def network(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(towers, "LARGE", 1)
    return load_learner(ModelSpec(str(tiny_model)), "cpu").module


def computing_on(monkeypatch: pytest.MonkeyPatch, bf16: bool) -> None:
    monkeypatch.setattr(towers, "has_bf16_units", lambda device: bf16)


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
    monkeypatch.setattr(towers, "LARGE", 1_000_000)
    assert not takes_bf16("auto", network, "inference")


def test_bfloat16_is_refused_on_a_gpu_that_imitates_it(monkeypatch):
    network = nn.Linear(2, 2)
    monkeypatch.setattr(nn.Linear, "parameters", lambda self: iter([Card()]))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    computing_on(monkeypatch, bf16=False)
    with pytest.raises(UsageError, match=r"needs a GPU of CUDA capability 8\.0 or later, but Tesla T4 is older; set"):
        takes_bf16("bf16", network, "inference")
    assert not takes_bf16("fp32", network, "inference")
    computing_on(monkeypatch, bf16=True)
    assert takes_bf16("bf16", network, "inference")


class Card:
    """A weight on a GPU."""

    device = torch.device("cuda")


@pytest.mark.parametrize("bf16", [False, pytest.param(True, marks=_UNITS)])
def test_encoding_follows_it(tiny_model, bf16, monkeypatch):
    monkeypatch.setattr(towers, "LARGE", 1)
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


BF16 = EncodeOptions(precision="bf16")
TEXTS = ["what is a list", "x", "", "word " * 99]
HEAD = {"projection": 16, "layer_norm": True, "similarity": "dot", "query_length": 64}


def weights(encoder: Encoder) -> list[torch.dtype]:
    return [next(part.parameters()).dtype for part in encoder.parts("query") if any(True for _ in part.parameters())]


@pytest.mark.parametrize("kind", ["sentence-transformers", "transformers"])
@pytest.mark.parametrize("twins", [False, True])
def test_loaded_as_bfloat16_is_loaded_and_rounded(tmp_path, kind, twins):
    folder = tiny_encoder(tmp_path / "model", kind=kind)
    spec = ModelSpec(str(folder), pooling="cls", twins=twins, **HEAD)  # type: ignore[arg-type]
    saved = load_learner(spec, "cpu")
    saved.save(tmp_path / "saved")
    for open_ in (lambda *by: load_learner(spec, "cpu", *by), lambda *by: load_learner(tmp_path / "saved", "cpu", *by)):
        rounded, whole = open_("bf16"), open_()
        assert weights(rounded) == [torch.bfloat16, torch.float32, torch.float32]
        assert weights(whole) == [torch.float32] * 3
        for side in ("query", "document"):
            np.testing.assert_array_equal(rounded.encode(TEXTS, side, BF16), whole.encode(TEXTS, side, BF16))


def test_a_saved_head_is_not_rounded(tmp_path):
    spec = ModelSpec(str(tiny_encoder(tmp_path / "model")), **HEAD)  # type: ignore[arg-type]
    encoder = load_learner(spec, "cpu")
    with torch.no_grad():
        encoder.parts("query")[3].norm.bias += 1e-5
    encoder.save(tmp_path / "saved")
    rounded = load_learner(tmp_path / "saved", "cpu", "bf16")
    assert torch.equal(rounded.parts("query")[3].norm.bias, encoder.parts("query")[3].norm.bias)


@pytest.mark.parametrize(("dtype", "held"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_a_recipe_says_what_encodes_whatever_the_precision_but_not_what_trains(tmp_path, dtype, held):
    spec = ModelSpec(str(tiny_encoder(tmp_path / "model")), dtype=dtype)
    assert weights(load_learner(spec, "cpu", "fp32"))[0] == weights(load_learner(spec, "cpu", "auto"))[0] == held
    assert weights(load_learner(spec, "cpu"))[0] == torch.float32
    plain = ModelSpec(spec.name)
    whole = load_learner(plain, "cpu", "fp32").encode(TEXTS, "query", EncodeOptions(precision="fp32"))
    found = load_learner(spec, "cpu", "fp32").encode(TEXTS, "query", EncodeOptions(precision="fp32"))
    assert found.dtype == np.float32 and 0 < abs(found - whole).max() < 0.02
    assert resolve(spec).digest != resolve(plain).digest


def test_the_default_follows_the_precision_and_is_not_in_the_digest(tmp_path):
    folder = str(tiny_encoder(tmp_path / "model"))
    assert weights(load_learner(ModelSpec(folder), "cpu", "fp32"))[0] == torch.float32
    assert weights(load_learner(ModelSpec(folder, dtype="fp32"), "cpu", "bf16"))[0] == torch.float32
    assert resolve(ModelSpec(folder, dtype="fp32")).digest == resolve(ModelSpec(folder)).digest
