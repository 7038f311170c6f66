"""ELECTRA's discriminator as a reranker: its source, its network, its scores."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hardneg_electra.electra import Electra
from safetensors.torch import load_file
from tiny_electra import tiny_electra

from hardneg.records import ModelError, PluginError
from hardneg.testing import RerankerTests, TrainableRerankerTests

PAIRS = [("old river", "an old river"), ("old river", "the quiet harbor ran past a bridge")]


class Tiny:
    def make(self, folder: Path) -> Electra:
        return Electra(str(tiny_electra(folder / "electra")), length=48)


class Trained:
    def make(self, folder: Path) -> Electra:
        if not (trained := folder / "trained").exists():
            Tiny().make(folder).load().save_pretrained(str(trained), create_model_card=False)
        return Electra(str(trained), length=48)


class TestReranker(Trained, RerankerTests):
    tolerance = 0.005  # it computes in bfloat16 where the device is good at it


class TestTrainable(Trained, TrainableRerankerTests):
    tolerance = 0.005


@pytest.fixture
def electra(tmp_path: Path) -> Electra:
    return Tiny().make(tmp_path)


def test_a_score_is_the_sigmoid_of_a_linear_layer_on_the_first_token(electra: Electra) -> None:
    from transformers import AutoModel, AutoTokenizer

    network = electra.load()
    tokens = AutoTokenizer.from_pretrained(electra.source)([PAIRS[1]], return_tensors="pt")
    with torch.no_grad():
        first = AutoModel.from_pretrained(electra.source)(**tokens).last_hidden_state[0, 0].double()
    layer = network[2].linear
    expected = torch.sigmoid(first @ layer.weight[0].double() + layer.bias.double())
    assert network.predict(PAIRS)[1] == pytest.approx(expected.item(), abs=1e-6)


def test_query_and_passage_are_two_segments(electra: Electra) -> None:
    network = electra.load()
    (types,) = network.tokenizer([PAIRS[0]])["token_type_ids"]
    assert types == [0] * 10 + [1] * 11  # [CLS] old river [SEP], an old river [SEP], a token a letter
    before = network.predict(PAIRS)
    with torch.no_grad():
        embeddings = network[0].model.embeddings.token_type_embeddings.weight
        embeddings[1] = embeddings[0]
    assert not np.allclose(before, network.predict(PAIRS), atol=1e-4)


def test_the_linear_layer_depends_on_the_seed_alone(electra: Electra) -> None:
    weights = electra.load()[2].linear.weight
    other = Electra(electra.source, length=48, seed=1).load()[2].linear.weight
    assert weights.shape == (1, 16) and not torch.equal(weights, other)
    assert weights.std().item() == pytest.approx(0.3, rel=0.5)


def test_in_bfloat16_the_layer_keeps_float32(electra: Electra) -> None:
    from hardneg.encoders.protocol import EncodeOptions
    from hardneg.rerankers.network import PairScorer

    scorer = PairScorer.of(electra.load(), "cpu", EncodeOptions(precision="bf16"))
    (scores,) = scorer.rerank([("old river", [text for _, text in PAIRS])])
    assert scores == pytest.approx(electra.load().predict(PAIRS).tolist(), abs=0.02)
    assert scorer.network.module[2].linear.weight.dtype == torch.float32
    assert {weight.dtype for weight in scorer.network.module[0].parameters()} == {torch.bfloat16}


def test_a_trained_one_opens_anywhere_and_serves_as_source(electra: Electra, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    network = electra.load()
    with torch.no_grad():
        network[2].linear.bias += 1.0
    network.save_pretrained(str(tmp_path / "trained"), create_model_card=False)
    expected = network.predict(PAIRS)
    assert CrossEncoder(str(tmp_path / "trained"), trust_remote_code=False).predict(PAIRS) == pytest.approx(expected)
    assert Electra(str(tmp_path / "trained"), length=48).load().predict(PAIRS) == pytest.approx(expected)


def test_a_discriminator_is_no_reranker_before_it_is_trained(electra: Electra, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="without a trained linear layer"):
        next(electra.rerank([("old river", ["an old river"])]))
    Trained().make(tmp_path).check_trained()
    Electra("somebody/not-here").check_trained()


def test_lengths_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PluginError, match="at least 5 tokens"):
        Electra("anywhere", length=4)


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
    with pytest.raises(ModelError, match="'some/other': neither a folder nor in the hub cache"):
        Electra("some/other").load()
    with pytest.raises(ModelError, match="'path/to/an/electra': no such folder"):
        Electra("path/to/an/electra").fingerprint()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "bert"}, "not an ELECTRA discriminator"),
        ({"architectures": ["ElectraForMaskedLM"]}, "but ElectraForMaskedLM; use reranker cross-encoder"),
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
    with pytest.raises(ModelError, match="does not mark the segments of a pair"):
        Electra(str(path.parent), length=48).load()


def test_more_tokens_than_there_are_positions_are_refused(tmp_path):
    with pytest.raises(ModelError, match="at most 64 tokens, but length is 65; lower length"):
        Electra(str(tiny_electra(tmp_path / "electra")), length=65).load()


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["sentence_transformers.models.Transformer"], "has modules .*, so it was not saved"),
        (["a.Transformer", "a.Pooling", "a.Dense"], r"a\.Transformer is the model's custom code, which is not run"),
    ],
)
def test_other_modules_are_refused(tmp_path, kinds, told):
    modules = json.dumps([{"type": kind, "path": "", "idx": n, "name": str(n)} for n, kind in enumerate(kinds)])
    (tiny_electra(tmp_path / "electra") / "modules.json").write_text(modules)
    with pytest.raises(ModelError, match=told):
        Electra(str(tmp_path / "electra"), length=48).load()
