"""The lines that make an encoder of queries give the vectors that hardneg's own encoder gives."""

from typing import Any

import numpy as np
import pytest

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.pyserini_lines import ModelReference, Program, dense_encoder
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.integrations.pyserini import model_location
from tests.tiny import tiny_encoder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("started_java")]

_TEXTS = ["blue river", "the old quiet engine was seen again near the bridge", "Garden, Harbor!"]
_PLAIN: dict[str, dict[str, Any]] = {
    "as it is": {},
    "a prompt": {"query_prompt": "query: "},
    "few tokens": {"query_length": 5, "document_length": 24},
    "cls": {"pooling": "cls"},
    "dot": {"similarity": "dot"},
}
_OTHERS: dict[str, dict[str, Any]] = {
    "a head": {"projection": 8, "layer_norm": True, "similarity": "dot"},
    "a prompt without a blank": {"query_prompt": "query:"},
    "a prompt of a blank": {"query_prompt": " "},
    "last token": {"pooling": "lasttoken", "query_length": 6},
    "two sides": {"twins": True, "query_length": 6},
    "token types": {"query_token_type": 1, "document_token_type": 0},
    "cut": {"truncate_dim": 12},
}


def _made(program: Program | None) -> Any:
    assert program is not None
    space: dict[str, Any] = {}
    exec(compile(program.text(), "lines", "exec"), space)
    return space["encoder"]


def _check(program: Program | None, encoder: Encoder) -> None:
    made = _made(program)
    wanted = encoder.encode(_TEXTS, "query", EncodeOptions(precision="fp32"))
    np.testing.assert_allclose([made.encode(text) for text in _TEXTS], wanted, atol=2e-5)


@pytest.mark.parametrize("said", [*_PLAIN, *_OTHERS])
def test_a_saved_model_is_opened_by_its_folder(tmp_path, said):
    spec = ModelSpec(str(tiny_encoder(tmp_path / "model")), **(_PLAIN | _OTHERS)[said])
    load_learner(spec, "cpu").save(tmp_path / "saved")
    encoder = load_learner(tmp_path / "saved", "cpu")
    program = dense_encoder(encoder, ModelReference(str(tmp_path / "saved")))
    assert program is not None and ("AutoQueryEncoder" in program.text()) == (said in _PLAIN)
    _check(program, encoder)


@pytest.mark.parametrize("said", [*_PLAIN, "a prompt without a blank", "a prompt of a blank", "cut"])
def test_a_model_of_others_is_told_what_the_recipe_says(tmp_path, said):
    spec = ModelSpec(str(tiny_encoder(tmp_path / "model")), **(_PLAIN | _OTHERS)[said])
    encoder = load_learner(spec, "cpu", "fp32")
    _check(dense_encoder(encoder, model_location(resolve(spec, fetch=True))), encoder)


@pytest.mark.parametrize("said", ["a head", "two sides", "token types", "last token"])
def test_a_network_that_no_folder_has_is_told(tmp_path, said):
    spec = ModelSpec(str(tiny_encoder(tmp_path / "model")), **_OTHERS[said])
    place = model_location(resolve(spec, fetch=True))
    assert "which the folder of the model" in place.lacking
    assert dense_encoder(load_learner(spec, "cpu", "fp32"), place) is None
