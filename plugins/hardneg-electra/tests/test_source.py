import json

import pytest
import torch
from hardneg_electra.electra import Electra
from safetensors.torch import load_file
from tiny_electra import tiny_electra

from hardneg.records import ModelError


def test_the_fingerprint_is_that_of_the_files_wherever_they_lie(tmp_path):
    told = Electra(str(tiny_electra(tmp_path / "one"))).fingerprint()
    assert Electra(str(tiny_electra(tmp_path / "two"))).fingerprint() == told
    assert Electra(str(tiny_electra(tmp_path / "three", seed=1))).fingerprint() != told
    (tmp_path / "two" / "README.md").write_text("a card")
    assert Electra(str(tmp_path / "two")).fingerprint() == told


def test_weights_as_they_were_published_are_read(tmp_path):
    expected = Electra(str(tiny_electra(tmp_path / "electra")), length=48).load().predict([("a river", "a harbor")])
    safe = tmp_path / "electra" / "model.safetensors"
    torch.save(load_file(safe), tmp_path / "electra" / "pytorch_model.bin")
    safe.unlink()
    assert Electra(str(tmp_path / "electra"), length=48).load().predict([("a river", "a harbor")]) == expected


def test_a_hub_id_is_named_by_its_commit_and_read_from_the_cache(tmp_path, monkeypatch):
    commit = "0123456789" * 4
    cache = tmp_path / "hub" / "models--some--electra"
    tiny_electra(cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    electra = Electra("some/electra", length=48)
    assert electra.fingerprint() == f"some/electra@{commit}"
    assert electra.load().max_seq_length == 48
    with pytest.raises(ModelError, match="'some/other': neither a folder nor in the hub's cache"):
        Electra("some/other").load()
    with pytest.raises(ModelError, match="'path/to/an/electra': no such folder"):
        Electra("path/to/an/electra").fingerprint()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "bert"}, "no ELECTRA discriminator"),
        ({"architectures": ["ElectraForMaskedLM"]}, "but ElectraForMaskedLM: take reranker cross-encoder"),
        ({"type_vocab_size": 1}, "cannot be opened"),
    ],
)
def test_what_is_no_discriminator_is_refused(tmp_path, changes, told):
    path = tiny_electra(tmp_path / "electra") / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ModelError, match=told):
        Electra(str(path.parent), length=48).load()


def test_a_tokenizer_without_segments_is_refused(tmp_path):
    path = tiny_electra(tmp_path / "electra") / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": "TokenizersBackend"}))
    with pytest.raises(ModelError, match="does not tell the segments of a pair apart"):
        Electra(str(path.parent), length=48).load()


def test_more_tokens_than_there_are_positions_are_refused(tmp_path):
    with pytest.raises(ModelError, match="at most 64 tokens: length is 65, lower it"):
        Electra(str(tiny_electra(tmp_path / "electra")), length=65).load()


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["sentence_transformers.models.Transformer"], "has modules .*: it was not saved"),
        (["a.Transformer", "a.Pooling", "a.Dense"], r"a\.Transformer is code of the model's own, which is not run"),
    ],
)
def test_other_modules_are_refused(tmp_path, kinds, told):
    modules = json.dumps([{"type": kind, "path": "", "idx": n, "name": str(n)} for n, kind in enumerate(kinds)])
    (tiny_electra(tmp_path / "electra") / "modules.json").write_text(modules)
    with pytest.raises(ModelError, match=told):
        Electra(str(tmp_path / "electra"), length=48).load()
