"""The token table of a transformer as a static model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_encoder

from hardneg.encoders.open.contract import UNBOUNDED
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.static_encoder import principal, sif_weights, word_embeddings
from hardneg.records.errors import ModelError, PluginError
from hardneg.records.types import PluginSetting
from hardneg.runtime.seeding import generator


def test_sif_weights_by_hand():
    # 1/2, 1/3, 1/4 of a sum of 13/12: p is 6/13, 4/13, 3/13; a / (a + p) for a of .1
    torch.testing.assert_close(sif_weights(3, 0.1), torch.tensor([0.178082, 0.245283, 0.302326]), atol=1e-6, rtol=0)


def test_principal_components_by_hand():
    table = torch.tensor([[1.0, 1.0], [3.0, 3.0], [5.0, 5.0], [3.0, 3.0]])  # all along (1, 1), mean (3, 3)
    expected = torch.tensor([[-(8**0.5)], [0.0], [8**0.5], [0.0]])
    torch.testing.assert_close(principal(table, 1), expected)
    whole = principal(table, 2)
    torch.testing.assert_close(torch.cdist(whole, whole), torch.cdist(table, table), atol=1e-5, rtol=0)


def test_a_transformer_gives_its_token_table(tiny_model: Path, from_transformer: ModelSpec):
    table = word_embeddings(tiny_model)
    own = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
    torch.testing.assert_close(table, own)
    encoder = load_learner(from_transformer)
    made = principal(own, 8) * sif_weights(len(own), 1e-4)[:, None]
    torch.testing.assert_close(encoder.module[0].embedding.weight.data, made)
    assert resolve(from_transformer, fetch=True).full.document_length == UNBOUNDED
    asked = {"dimensions": None, "sif": None}
    plain = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("static", asked)))
    torch.testing.assert_close(plain.module[0].embedding.weight.data, own)


def test_an_untrained_table_has_the_spread_of_the_transformers(tiny_model: Path, from_transformer: ModelSpec):
    own = word_embeddings(tiny_model)
    options = {"dimensions": None, "sif": None, "untrained": True}
    spec = ModelSpec(str(tiny_model), encoder=PluginSetting("static", options))
    tables = [load_learner(spec).module[0].embedding.weight.data for _ in range(2)]
    torch.testing.assert_close(*tables, atol=0, rtol=0)
    drawn = torch.from_numpy(generator(42, "untrained").standard_normal(own.shape, np.float32))
    torch.testing.assert_close(tables[0], drawn * own.std(), atol=0, rtol=0)
    assert tables[0].std() == pytest.approx(float(own.std()), rel=0.1)
    trained = ModelSpec(str(tiny_model), encoder=PluginSetting("static", {**options, "untrained": False}))
    assert len({resolve(each).digest for each in (spec, trained, from_transformer)}) == 3
    plain = ModelSpec(str(tiny_model), encoder=PluginSetting("static", {"dimensions": None, "sif": None}))
    assert resolve(trained).digest == resolve(plain).digest


def test_a_transformer_without_a_table(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model", kind="transformers")
    weights = load_file(folder / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ModelError, match="no token table in its weights: name another model"):
        load_learner(ModelSpec(str(folder), encoder=PluginSetting("static")))


@pytest.mark.parametrize("options", [{"dimensions": 0}, {"sif": 0.0}, {"size": 3}])
def test_options_that_make_no_sense(tiny_model: Path, options):
    with pytest.raises(PluginError):
        _ = resolve(ModelSpec(str(tiny_model), encoder=PluginSetting("static", options)), fetch=True).full
