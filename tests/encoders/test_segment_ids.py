"""Encoders that read queries and documents with other token types, and what opens them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import split
from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.records.errors import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["what is a fox", "", "the quick brown fox " * 9]
CORT = {"pooling": "cls", "projection": 8, "activation": "tanh", "query_token_type": 1}
LENGTHS = {"query_length": 8, "document_length": 16}


def cort(folder: Path, **options: object) -> ModelSpec:
    return ModelSpec(str(folder), **(CORT | LENGTHS | options))  # type: ignore[arg-type]


def albert(folder: Path) -> Path:
    """A tiny ALBERT, whose own tokenizer gives no token types."""
    from transformers import AlbertConfig, AlbertModel, AlbertTokenizer

    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    starts = [("▁" + one, -3.0) for one in letters]
    pieces = [*((name, 0.0) for name in special), *starts, *((one, -4.0) for one in letters)]
    sizes = {"hidden_size": 32, "embedding_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AlbertModel(AlbertConfig(vocab_size=len(pieces), num_hidden_layers=2, initializer_range=0.2, **sizes))
    model.save_pretrained(folder)
    AlbertTokenizer(vocab=pieces).save_pretrained(folder)
    return folder


def test_vectors_are_those_of_the_definition(tmp_path: Path):
    """Queries with type 1, documents with type 0; first token, linear, tanh, normalised."""
    encoder = load_learner(cort(albert(tmp_path / "albert")), "cpu")
    transformer, _, dense, _ = encoder.parts("query")
    for kind, token_type in (("query", 1), ("document", 0)):
        features = encoder.features(TEXTS, kind)
        assert features["token_type_ids"][features["attention_mask"].bool()].unique().tolist() == [token_type]
        with torch.inference_mode():
            state = transformer.model(**features).last_hidden_state[:, 0]
            head = torch.tanh(state @ dense.linear.weight.T + dense.linear.bias)
        expected = torch.nn.functional.normalize(head)
        np.testing.assert_allclose(encoder.encode(TEXTS, kind, FP32), expected, atol=1e-6)
    assert not np.allclose(encoder.encode(TEXTS, "query", FP32), encoder.encode(TEXTS, "document", FP32), atol=1e-3)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_a_saved_model_opens_everywhere_with_its_token_types(tmp_path: Path, kind: str):
    from sentence_transformers import SentenceTransformer

    folder = tmp_path / kind
    source = albert(folder) if kind == "albert" else tiny_encoder(folder, kind="transformers")
    encoder = load_learner(cort(source), "cpu")
    expected = {kind: encoder.encode(TEXTS, kind, FP32) for kind in ("query", "document")}
    encoder.save(tmp_path / "model")
    opened, theirs = load_learner(tmp_path / "model", "cpu"), SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert opened.spec.query_token_type == 1 and not opened.twins
    for kind, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        assert np.array_equal(opened.encode(TEXTS, kind, FP32), expected[kind])
        np.testing.assert_allclose(encode(TEXTS), expected[kind], atol=1e-5)
    similar = theirs.similarity(theirs.encode_query(TEXTS), theirs.encode_document(TEXTS))
    np.testing.assert_allclose(similar, expected["query"] @ expected["document"].T, atol=1e-5)


def test_twins_stay_apart(tiny_model: Path, tmp_path: Path):
    twins = split(load_learner(cort(tiny_model), "cpu"))
    with torch.no_grad():
        twins.parts("query")[0].model.embeddings.word_embeddings.weight[7:] *= -1
    twins.save(tmp_path / "model")
    opened = load_learner(tmp_path / "model", "cpu")
    assert opened.twins
    for kind in ("query", "document"):
        assert np.array_equal(opened.encode(TEXTS, kind, FP32), twins.encode(TEXTS, kind, FP32))


def test_segments_have_the_type_of_documents(tiny_model: Path):
    encoder = load_learner(cort(tiny_model, query_token_type=0, document_token_type=1), "cpu")
    tokens = encoder.segment(TEXTS, Segments(8, count=2)).tokens
    assert tokens.same["token_type_ids"] == 1
    whole, _ = encoder.encode_segments(TEXTS[:2], Segments(16), FP32)
    np.testing.assert_allclose(whole, encoder.encode(TEXTS[:2], "document", FP32), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "bert", "type_vocab_size": 1}, "has 1 token types, counted from 0: query_token_type is 1"),
        ({"model_type": "distilbert"}, "has no token types: query_token_type is 1; leave the token types out and set"),
    ],
)
def test_a_model_without_such_types_is_refused(tmp_path: Path, change: dict[str, object], said: str):
    from transformers import AutoConfig, AutoModel

    folder = tiny_encoder(tmp_path / "model", kind="transformers")
    config = json.loads((folder / "config.json").read_text()) | change
    sizes = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 32} if config["model_type"] == "distilbert" else {}
    AutoModel.from_config(
        AutoConfig.for_model(**{name: config[name] for name in ("vocab_size", *change)} | sizes)
    ).save_pretrained(folder)
    with pytest.raises(ModelError, match=said):
        load_learner(cort(folder), "cpu")


def test_the_card_tells_the_types(tiny_model: Path):
    card = model_card(load_learner(cort(tiny_model, projection=None, activation="identity"), "cpu"), {})
    assert "Token types: 1 of a query, 0 of a document" in card
    assert "class Vectors(QueryEncoder):" in card and "AutoQueryEncoder" not in card
