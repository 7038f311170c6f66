"""What is no whole model is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import HIDDEN, tiny_encoder

from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_encoder(tmp_path / "model")


def weights(folder: Path, without: str = "-", **more: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    kept = {name: value for name, value in load_file(path).items() if without not in name}
    save_file(kept | {name.replace("__", "."): value for name, value in more.items()}, path, {"format": "pt"})


def refused(folder: Path, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(folder)), "cpu")


def test_no_tokenizer(folder: Path):
    for path in (*folder.glob("tokenizer*"), *folder.glob("special_tokens*")):
        path.unlink()
    refused(folder, "no tokenizer there")
    with pytest.raises(ModelError, match="no tokenizer there"):
        _ = resolve(ModelSpec(str(folder))).digest


def test_a_tokenizer_that_knows_no_words(folder: Path):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    special = [token["content"] for token in content["added_tokens"]]
    content["model"]["vocab"] = {token: place for place, token in enumerate(special)}
    path.write_text(json.dumps(content))
    refused(folder, "no tokenizer there")


def test_a_layer_that_is_missing(folder: Path):
    weights(folder, without="layer.1.output")
    refused(folder, r"its weights lack encoder.layer.1.output.LayerNorm.bias, .*: copy the model again")


def test_a_layer_too_many(folder: Path):
    weights(folder, encoder__layer__2__output__dense__bias=torch.zeros(HIDDEN))
    refused(folder, "have encoder.layer.2.output.dense.bias, but its config.json does not")


def test_heads_may_lack_or_be_too_many(folder: Path, capfd: pytest.CaptureFixture[str]):
    head = {"cls__predictions__bias": torch.zeros(9), "embeddings__position_ids": torch.arange(512)[None]}
    weights(folder, without="pooler", **head)
    load_learner(ModelSpec(str(folder)), "cpu")
    assert capfd.readouterr() == ("", "")


def test_an_activation_that_is_code_of_its_own(folder: Path):
    modules = json.loads((folder / "modules.json").read_text())
    modules[2] |= {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "2_Dense").mkdir()
    options = {"in_features": HIDDEN, "out_features": 8, "bias": True, "activation_function": "evil.code.Swish"}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(options))
    dense = {"linear.weight": torch.ones(8, HIDDEN), "linear.bias": torch.zeros(8)}
    save_file(dense, folder / "2_Dense" / "model.safetensors")
    refused(folder, "activation evil.code.Swish is code of its own")
    options["activation_function"] = "torch.nn.modules.activation.Tanh"
    (folder / "2_Dense" / "config.json").write_text(json.dumps(options))
    assert load_learner(ModelSpec(str(folder)), "cpu").dimension == 8


def test_a_head_is_looked_at_before_anything_is_opened(folder: Path):
    test_an_activation_that_is_code_of_its_own(folder)
    spec, config = ModelSpec(str(folder)), folder / "2_Dense" / "config.json"
    assert resolve(spec).digest
    config.write_text(config.read_text().replace("torch.nn", "evil"))
    with pytest.raises(ModelError, match="is code of its own"):
        _ = resolve(spec).digest
    save_file({"linear.weight": torch.ones(8, HIDDEN)}, folder / "2_Dense" / "model.safetensors")
    config.write_text(config.read_text().replace("evil", "torch.nn"))
    refused(folder, r"Missing key\(s\) in state_dict: \"linear.bias\"")
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="2_Dense: no weights there"):
        _ = resolve(spec).digest


def test_ids_that_have_no_embedding(folder: Path):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["beyond"] = 9000
    path.write_text(json.dumps(content))
    refused(folder, "ids up to 9000, but its transformer has")


@pytest.mark.parametrize("kept", [0, 4, 40, -1], ids=["empty", "no length", "no header", "no last byte"])
def test_a_file_that_is_cut_off(folder: Path, kept: int):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match="cannot be opened") as caught:
        load_learner(ModelSpec(str(folder)), "cpu")
    assert "\n" not in str(caught.value)
