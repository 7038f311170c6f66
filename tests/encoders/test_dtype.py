"""Weights in the dtype that texts are encoded in."""

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec

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
